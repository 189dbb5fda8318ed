/* SPDX-License-Identifier: Apache-2.0 */
/* What longreach copy and an export's server say: every kind of entry and result, whole and cut short, and names that
 * lead out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "copy/wire/copy_wire.c"

static const struct copy_meta meta = {
    .mode = 04751, .uid = 1000, .gid = 100, .mtime_s = -5, .mtime_ns = 999999999, .xattrs = {(const uint8_t *)"xx", 2}};

/* One of each type, with all that it has. */
static struct copy_entry entry_of(uint8_t type)
{
	return (struct copy_entry){.type = type,
	                           .kind = COPY_REGULAR,
	                           .anew = true,
	                           .path = copy_text("a/b c/\xff"),
	                           .target = copy_text("b/d"),
	                           .data = copy_text("data"),
	                           .region = "copy.1.2",
	                           .meta = meta,
	                           .size = INT64_MAX,
	                           .hash = 0x1122334455667788u,
	                           .digest = {1, UINT64_MAX},
	                           .after = copy_text("f"),
	                           .upto = copy_text("g")};
}

static bool same(struct copy_bytes a, struct copy_bytes b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

static size_t put_one(uint8_t *buf, size_t cap, const struct copy_entry *e)
{
	struct copy_out o = {.buf = buf, .cap = cap};

	return copy_entry_put(&o, e) ? o.len : 0;
}

static bool get_one(const uint8_t *buf, size_t len, struct copy_entry *e)
{
	struct copy_in in = {buf, len};

	return copy_entry_get(&in, e) && in.left == 0;
}

static void entry__comes_back(void **state)
{
	uint8_t buf[512];

	(void)state;
	for (uint8_t type = COPY_CHECK; type < COPY_TYPES; type++) {
		struct copy_entry e = entry_of(type), got;
		size_t len = put_one(buf, sizeof(buf), &e);

		assert_true(len > 0);
		assert_true(get_one(buf, len, &got));
		assert_int_equal(got.type, type);
		assert_true(same(got.path, e.path));
		if (type == COPY_FILE || type == COPY_META || type == COPY_COMMIT || type == COPY_LINK_SYM) {
			assert_int_equal(got.meta.mode, meta.mode);
			assert_int_equal(got.meta.uid, meta.uid);
			assert_int_equal(got.meta.gid, meta.gid);
			assert_true(same(got.meta.xattrs, meta.xattrs));
		}
		if (type == COPY_FILE || type == COPY_OPEN || type == COPY_COMMIT || type == COPY_CHECK) {
			assert_true(got.meta.mtime_s == meta.mtime_s);
			assert_int_equal(got.meta.mtime_ns, meta.mtime_ns);
		}
		if (type == COPY_OPEN || type == COPY_COMMIT || type == COPY_CHECK)
			assert_true(got.size == e.size);
		if (type == COPY_LINK_SYM || type == COPY_LINK_HARD || type == COPY_CHECK)
			assert_true(same(got.target, e.target));
		if (type == COPY_FILE) {
			assert_true(same(got.data, e.data));
			assert_true(got.hash == e.hash);
		}
		if (type == COPY_OPEN)
			assert_true(got.anew);
		if (type == COPY_COMMIT) {
			assert_string_equal(got.region, e.region);
			assert_memory_equal(got.digest, e.digest, sizeof(e.digest));
		}
		if (type == COPY_EXTRAS)
			assert_true(same(got.after, e.after) && same(got.upto, e.upto) && same(got.data, e.data));
	}
}

/* At every length; and nothing beyond it is read (the copy ends where the allocation does). */
static void entry__cut_short_is_refused(void **state)
{
	uint8_t buf[512];

	(void)state;
	for (uint8_t type = COPY_CHECK; type < COPY_TYPES; type++) {
		struct copy_entry e = entry_of(type), got;
		size_t len = put_one(buf, sizeof(buf), &e);

		for (size_t cut = 0; cut < len; cut++) {
			uint8_t *exact = malloc(cut + 1);

			memcpy(exact, buf, cut);
			assert_false(get_one(exact, cut, &got));
			free(exact);
		}
	}
}

static void entry__that_does_not_fit_leaves_no_trace(void **state)
{
	uint8_t buf[512];

	(void)state;
	for (uint8_t type = COPY_CHECK; type < COPY_TYPES; type++) {
		struct copy_entry e = entry_of(type);
		size_t len = put_one(buf, sizeof(buf), &e);

		for (size_t cap = 0; cap < len; cap++) {
			struct copy_out o = {.buf = buf, .cap = cap};

			assert_false(copy_entry_put(&o, &e));
			assert_int_equal(o.len, 0);
			assert_false(o.full);
		}
		assert_int_equal(put_one(buf, len, &e), len);
	}
}

static void entry__of_nonsense_is_refused(void **state)
{
	uint8_t buf[512];
	struct copy_entry e, got;

	(void)state;
	e = entry_of(COPY_META);
	e.meta.mode = 0100644;
	assert_false(get_one(buf, put_one(buf, sizeof(buf), &e), &got));
	e = entry_of(COPY_META);
	e.meta.mtime_ns = 1000000000;
	assert_false(get_one(buf, put_one(buf, sizeof(buf), &e), &got));
	e = entry_of(COPY_OPEN);
	e.size = (uint64_t)INT64_MAX + 1;
	assert_false(get_one(buf, put_one(buf, sizeof(buf), &e), &got));
	e = entry_of(COPY_CHECK);
	e.kind = COPY_KINDS;
	assert_false(get_one(buf, put_one(buf, sizeof(buf), &e), &got));
	e = entry_of(COPY_LINK_SYM);
	e.target = (struct copy_bytes){(const uint8_t *)"a\0b", 3};
	assert_false(get_one(buf, put_one(buf, sizeof(buf), &e), &got));
	e = entry_of(COPY_LINK_SYM);
	e.target.len = 0;
	assert_false(get_one(buf, put_one(buf, sizeof(buf), &e), &got));
	e = entry_of(COPY_LINK_HARD);
	e.target = copy_text("../x");
	assert_false(get_one(buf, put_one(buf, sizeof(buf), &e), &got));
	e = entry_of(COPY_EXTRAS);
	e.after = copy_text("a/b");
	assert_false(get_one(buf, put_one(buf, sizeof(buf), &e), &got));
	e = entry_of(COPY_TYPES);
	assert_false(get_one(buf, put_one(buf, sizeof(buf), &e), &got));
}

static const char *const sources[] = {"", "a", "a/b/", "c d"};

static size_t put_push(uint8_t *buf, size_t cap, struct copy_bytes odd_source)
{
	static struct copy_push p;
	struct copy_out o = {.buf = buf, .cap = cap};

	p = (struct copy_push){.export = "pull.1", .path = copy_text("x/y"), .flags = COPY_PUSH_REMOVE, .timeout_s = 7, .nsources = 5};
	for (unsigned i = 0; i < 4; i++)
		p.source[i] = copy_text(sources[i]);
	p.source[4] = odd_source;
	p.nexcludes = 1;
	p.exclude[0] = copy_text("*.o");
	copy_push_put(&o, &p);
	return o.full ? 0 : o.len;
}

static void push__comes_back(void **state)
{
	static struct copy_push got;
	uint8_t buf[512];
	size_t len = put_push(buf, sizeof(buf), copy_text("z"));
	struct copy_in in = {buf, len};

	(void)state;
	assert_true(copy_push_get(&in, &got));
	assert_string_equal(got.export, "pull.1");
	assert_true(same(got.path, copy_text("x/y")));
	assert_int_equal(got.flags, COPY_PUSH_REMOVE);
	assert_int_equal(got.timeout_s, 7);
	assert_int_equal(got.nsources, 5);
	for (unsigned i = 0; i < 4; i++)
		assert_true(same(got.source[i], copy_text(sources[i])));
	assert_int_equal(got.nexcludes, 1);
	assert_true(same(got.exclude[0], copy_text("*.o")));
	for (size_t cut = 0; cut < len; cut++) {
		uint8_t *exact = malloc(cut + 1);

		memcpy(exact, buf, cut);
		in = (struct copy_in){exact, cut};
		assert_false(copy_push_get(&in, &got));
		free(exact);
	}
}

/* No source leads out of the export, and none is said in two ways. */
static void push__of_what_leads_out_is_refused(void **state)
{
	static const char *const bad[] = {"/", "/etc", "..", "../", "a/../..", "a//", "./a", "a/./"};
	static struct copy_push got;
	uint8_t buf[512];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct copy_in in = {buf, put_push(buf, sizeof(buf), copy_text(bad[i]))};

		assert_false(copy_push_get(&in, &got));
	}
}

static void say__comes_back(void **state)
{
	uint8_t buf[64], stream;
	struct copy_out o = {.buf = buf, .cap = sizeof(buf)};
	struct copy_bytes text;
	struct copy_in in;

	(void)state;
	copy_say_put(&o, 2, copy_text("hear"));
	in = (struct copy_in){buf, o.len};
	assert_true(copy_say_get(&in, &stream, &text));
	assert_int_equal(stream, 2);
	assert_true(same(text, copy_text("hear")));
	buf[0] = 3;
	in = (struct copy_in){buf, o.len};
	assert_false(copy_say_get(&in, &stream, &text));
}

/* The session's directory itself is nothing that could be written or removed. */
static void entry__without_a_name(void **state)
{
	uint8_t buf[512];
	struct copy_entry got;

	(void)state;
	for (uint8_t type = COPY_CHECK; type < COPY_TYPES; type++) {
		struct copy_entry e = entry_of(type);
		bool may = type == COPY_CHECK || type == COPY_DIR || type == COPY_META || type == COPY_EXTRAS;

		e.path.len = 0;
		assert_int_equal(get_one(buf, put_one(buf, sizeof(buf), &e), &got), may);
	}
}

static void path__is_sound(void **state)
{
	static const char *const good[] = {"", "a", "a/b", "...", "a/..b", ".a/b.", "-", " ", "a\nb"};
	static const char *const bad[] = {"/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "./a", "a/../b"};
	char name[COPY_NAME_MAX + 2], path[COPY_PATH_MAX + 2];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(copy_path_is_sound(copy_text(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(copy_path_is_sound(copy_text(bad[i])));
	assert_false(copy_path_is_sound((struct copy_bytes){(const uint8_t *)"a\0b", 3}));
	memset(name, 'n', sizeof(name));
	assert_true(copy_path_is_sound((struct copy_bytes){(const uint8_t *)name, COPY_NAME_MAX}));
	assert_false(copy_path_is_sound((struct copy_bytes){(const uint8_t *)name, COPY_NAME_MAX + 1}));
	for (size_t i = 0; i < sizeof(path); i++)
		path[i] = i % 2 ? '/' : 'p';
	assert_true(copy_path_is_sound((struct copy_bytes){(const uint8_t *)path, COPY_PATH_MAX}));
	assert_false(copy_path_is_sound((struct copy_bytes){(const uint8_t *)path, COPY_PATH_MAX + 2}));
}

static void result__comes_back(void **state)
{
	static struct copy_result r, got;
	static uint8_t buf[8192], list[64];
	struct copy_out names = {.buf = list, .cap = sizeof(list)};
	char name[COPY_NAME_MAX + 1];
	struct copy_in in;
	uint8_t kind;

	(void)state;
	assert_true(copy_name_put(&names, COPY_DIRECTORY, "one"));
	assert_true(copy_name_put(&names, COPY_SYMLINK, "two"));
	for (uint8_t type = COPY_CHECK; type < COPY_TYPES; type++) {
		struct copy_out o = {.buf = buf, .cap = sizeof(buf)};

		r = (struct copy_result){
		    .type = type, .state = COPY_MORE, .error = 2, .region = "copy.x", .list = {list, names.len}};
		r.nranges = COPY_RANGES_MAX;
		for (uint32_t i = 0; i < r.nranges; i++)
			r.range[i] = (struct copy_range){i, INT64_MAX - i};
		assert_true(copy_result_put(&o, &r));
		assert_true(o.len <= copy_result_max(type) + (type == COPY_EXTRAS ? names.len : 0));
		in = (struct copy_in){buf, o.len};
		assert_true(copy_result_get(&in, &got) && in.left == 0);
		assert_int_equal(got.type, type);
		assert_int_equal(got.state, COPY_MORE);
		assert_int_equal(got.error, 2);
		if (type == COPY_OPEN || type == COPY_COMMIT) {
			assert_string_equal(got.region, "copy.x");
			assert_int_equal(got.nranges, COPY_RANGES_MAX);
			assert_memory_equal(got.range, r.range, sizeof(r.range));
		}
		for (size_t cut = 0; cut < o.len; cut += 3) {
			in = (struct copy_in){buf, cut};
			assert_false(copy_result_get(&in, &got));
		}
	}
	in = (struct copy_in){list, names.len};
	assert_true(copy_name_next(&in, &kind, name));
	assert_int_equal(kind, COPY_DIRECTORY);
	assert_string_equal(name, "one");
	assert_true(copy_name_next(&in, &kind, name));
	assert_string_equal(name, "two");
	assert_false(copy_name_next(&in, &kind, name));
	assert_non_null(in.p); /* the end, and no error */
}

/* A receiver's array has COPY_RANGES_MAX places. */
static void result__with_too_many_ranges_is_refused(void **state)
{
	static uint8_t buf[8192];
	static struct copy_result r = {.type = COPY_OPEN, .region = "r"}, got;
	struct copy_out o = {.buf = buf, .cap = sizeof(buf)};
	struct copy_in in;

	(void)state;
	assert_true(copy_result_put(&o, &r));
	put_be16(buf + o.len - 2, COPY_RANGES_MAX + 1);
	in = (struct copy_in){buf, sizeof(buf)};
	assert_false(copy_result_get(&in, &got));
}

static void name__that_leads_out_is_refused(void **state)
{
	static const char *const bad[] = {"..", ".", "", "a/b", "/"};
	uint8_t buf[32], kind;
	char name[COPY_NAME_MAX + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct copy_out o = {.buf = buf, .cap = sizeof(buf)};
		struct copy_in in;

		assert_true(copy_name_put(&o, 0, bad[i]));
		in = (struct copy_in){buf, o.len};
		assert_false(copy_name_next(&in, &kind, name));
		assert_null(in.p);
	}
}

static void head__of_another_version_is_refused(void **state)
{
	struct copy_head h = {.op = COPY_BATCH, .window = 7, .session = 99}, got;
	uint8_t buf[16];
	struct copy_out o = {.buf = buf, .cap = sizeof(buf)};
	struct copy_in in;

	(void)state;
	copy_head_put(&o, &h);
	in = (struct copy_in){buf, o.len};
	assert_true(copy_head_get(&in, &got));
	assert_int_equal(got.window, 7);
	assert_true(got.session == 99);
	buf[0] = COPY_VERSION + 1;
	in = (struct copy_in){buf, o.len};
	assert_false(copy_head_get(&in, &got));
	buf[0] = COPY_VERSION;
	buf[1] = COPY_OPS;
	in = (struct copy_in){buf, o.len};
	assert_false(copy_head_get(&in, &got));
}

static void notice__comes_back(void **state)
{
	uint8_t buf[COPY_NOTICE_LEN];
	uint64_t hash;

	(void)state;
	copy_notice_put(buf, 0x0102030405060708u);
	assert_true(copy_notice_get(buf, sizeof(buf), &hash));
	assert_true(hash == 0x0102030405060708u);
	assert_false(copy_notice_get(buf, sizeof(buf) - 1, &hash));
	buf[0] ^= 1;
	assert_false(copy_notice_get(buf, sizeof(buf), &hash));
}

static void xattrs__come_back(void **state)
{
	uint8_t buf[64];
	struct copy_out o = {.buf = buf, .cap = sizeof(buf)};
	char name[COPY_NAME_MAX + 1];
	struct copy_bytes value;
	struct copy_in in;

	(void)state;
	assert_true(copy_xattr_put(&o, "user.a", "1\0002", 3));
	assert_true(copy_xattr_put(&o, "user.b", NULL, 0));
	in = (struct copy_in){buf, o.len};
	assert_true(copy_xattr_next(&in, name, &value));
	assert_string_equal(name, "user.a");
	assert_int_equal(value.len, 3);
	assert_true(copy_xattr_next(&in, name, &value));
	assert_int_equal(value.len, 0);
	assert_false(copy_xattr_next(&in, name, &value));
	assert_non_null(in.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(entry__comes_back),
	    cmocka_unit_test(entry__cut_short_is_refused),
	    cmocka_unit_test(entry__that_does_not_fit_leaves_no_trace),
	    cmocka_unit_test(entry__of_nonsense_is_refused),
	    cmocka_unit_test(entry__without_a_name),
	    cmocka_unit_test(push__comes_back),
	    cmocka_unit_test(push__of_what_leads_out_is_refused),
	    cmocka_unit_test(say__comes_back),
	    cmocka_unit_test(path__is_sound),
	    cmocka_unit_test(result__comes_back),
	    cmocka_unit_test(result__with_too_many_ranges_is_refused),
	    cmocka_unit_test(name__that_leads_out_is_refused),
	    cmocka_unit_test(head__of_another_version_is_refused),
	    cmocka_unit_test(notice__comes_back),
	    cmocka_unit_test(xattrs__come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
