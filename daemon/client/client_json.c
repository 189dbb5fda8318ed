/* SPDX-License-Identifier: Apache-2.0 */
#include "client_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#define DEPTH_MAX 16

int jdoc_parse(struct json_object **root, const char *text)
{
	struct json_tokener *t = json_tokener_new_ex(DEPTH_MAX);
	enum json_tokener_error error;

	*root = NULL;
	if (t == NULL)
		return -ENOMEM;
	json_tokener_set_flags(t, JSON_TOKENER_STRICT);
	/* with the zero at its end, so that a number or a word there is whole */
	*root = json_tokener_parse_ex(t, text, (int)strlen(text) + 1);
	error = json_tokener_get_error(t);
	json_tokener_free(t);
	if (error == json_tokener_success && *root != NULL)
		return 0;
	jdoc_free(root);
	return -EINVAL;
}

void jdoc_free(struct json_object **root)
{
	json_object_put(*root);
	*root = NULL;
}

int j_answer_take(struct j_answer *a, char *text)
{
	*a = (struct j_answer){.text = text};
	return text != NULL ? jdoc_parse(&a->doc, text) : -ENOENT;
}

void j_answer_free(struct j_answer *a)
{
	jdoc_free(&a->doc);
	free(a->text);
	*a = (struct j_answer){0};
}

const struct json_object *j_get(const struct json_object *object, const char *key)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(object, key, &value);
	return value;
}

const struct json_object *j_at(const struct json_object *array, size_t i)
{
	if (!json_object_is_type(array, json_type_array) || i >= json_object_array_length(array))
		return NULL;
	return json_object_array_get_idx(array, i);
}

/* The cast is sound: json-c takes no const because it may cache the text of a number; a string is not changed. */
const char *j_string(const struct json_object *value)
{
	struct json_object *v = (struct json_object *)(uintptr_t)value;

	return json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "";
}

void j_each_uint(const struct json_object *object, void (*fn)(void *arg, const char *key, uint64_t value), void *arg)
{
	struct json_object_iterator i, end;

	if (!json_object_is_type(object, json_type_object))
		return;
	i = json_object_iter_begin((struct json_object *)(uintptr_t)object);
	end = json_object_iter_end(object);
	for (; !json_object_iter_equal(&i, &end); json_object_iter_next(&i))
		if (json_object_is_type(json_object_iter_peek_value(&i), json_type_int))
			fn(arg, json_object_iter_peek_name(&i), json_object_get_uint64(json_object_iter_peek_value(&i)));
}

const char *j_text(const struct json_object *object, const char *key)
{
	return j_string(j_get(object, key));
}

/* json-c would read numbers out of strings, too. */
static bool is_number(const struct json_object *value)
{
	return json_object_is_type(value, json_type_int) || json_object_is_type(value, json_type_double);
}

double j_number(const struct json_object *object, const char *key)
{
	const struct json_object *value = j_get(object, key);

	return is_number(value) ? json_object_get_double(value) : 0;
}

uint64_t j_uint(const struct json_object *object, const char *key)
{
	const struct json_object *value = j_get(object, key);

	return is_number(value) ? json_object_get_uint64(value) : 0;
}

bool j_bool(const struct json_object *object, const char *key)
{
	const struct json_object *value = j_get(object, key);

	return json_object_is_type(value, json_type_boolean) && json_object_get_boolean(value);
}

bool j_has(const struct json_object *object, const char *key)
{
	return json_object_is_type(object, json_type_object) && json_object_object_get_ex(object, key, NULL);
}

uint64_t j_value(const struct json_object *value)
{
	return is_number(value) ? json_object_get_uint64((struct json_object *)(uintptr_t)value) : 0;
}
