/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "headroom/dcb_msg.c"

#define SEQ 0x6b00eb34u

/* The golden requests are what dcb(8) of iproute2 6.1 sends (little-endian) for
 *	dcb pfc set dev lo prio-pfc all:off 3:on 4:on delay 40
 *	dcb buffer set dev lo prio-buffer all:0 3:1 4:2 buffer-size 1:332448 2:332448
 * after an answer with pfc_cap 8 and a total_size of 262016. */
static const uint8_t golden_get[] = {
    0x1c, 0x00, 0x00, 0x00, 0x4e, 0x00, 0x05, 0x00, 0x34, 0xeb, 0x00, 0x6b, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x15, 0x00, 0x00, 0x07, 0x00, 0x01, 0x00, 0x6c, 0x6f, 0x00, 0x00,
};

static const uint8_t golden_set_pfc[172] = {
    0xac, 0x00, 0x00, 0x00, 0x4f, 0x00, 0x05, 0x00, 0x34, 0xeb, 0x00, 0x6b, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x07, 0x00, 0x01, 0x00, 0x6c, 0x6f, 0x00, 0x00,
    0x90, 0x00, 0x0d, 0x80, 0x8c, 0x00, 0x02, 0x00, 0x08, 0x18, 0x00, 0x00, 0x28, 0x00, /* and zeros */
};

static const uint8_t golden_set_buffer[] = {
    0x50, 0x00, 0x00, 0x00, 0x4f, 0x00, 0x05, 0x00, 0x34, 0xeb, 0x00, 0x6b, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x14, 0x00, 0x00, 0x07, 0x00, 0x01, 0x00, 0x6c, 0x6f, 0x00, 0x00, 0x34, 0x00, 0x0d, 0x80,
    0x30, 0x00, 0x0a, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0xa0, 0x12, 0x05, 0x00, 0xa0, 0x12, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0xff, 0x03, 0x00,
};

/* What Linux answers for a device without DCB (seen on lo): NLMSG_ERROR, -EOPNOTSUPP, the capped request. */
static const uint8_t golden_unsupported[] = {
    0x24, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x01, 0x34, 0xeb, 0x00, 0x6b, 0xea, 0x3d, 0x00, 0x00, 0xa1, 0xff,
    0xff, 0xff, 0x1c, 0x00, 0x00, 0x00, 0x4e, 0x00, 0x05, 0x00, 0x34, 0xeb, 0x00, 0x6b, 0x00, 0x00, 0x00, 0x00,
};

static const struct dcb_settings pfc_wanted = {.has_pfc = true, .pfc_cap = 8, .pfc_en = 0x18, .delay = 40};
static const struct dcb_settings buffer_wanted = {
    .has_buffer = true, .prio2buffer = {0, 0, 0, 1, 2}, .buffer_size = {0, 332448, 332448}, .total_size = 262016};

static void dcb_msg_get__as_dcb_sends_it(void **state)
{
	_Alignas(4) uint8_t buf[DCB_MSG_MAX];

	(void)state;
	assert_int_equal(dcb_msg_get(buf, "lo", SEQ), sizeof(golden_get));
	assert_memory_equal(buf, golden_get, sizeof(golden_get));
}

static void dcb_msg_set__as_dcb_sends_it(void **state)
{
	_Alignas(4) uint8_t buf[DCB_MSG_MAX];

	(void)state;
	assert_int_equal(dcb_msg_set(buf, "lo", SEQ, &pfc_wanted), sizeof(golden_set_pfc));
	assert_memory_equal(buf, golden_set_pfc, sizeof(golden_set_pfc));
	assert_int_equal(dcb_msg_set(buf, "lo", SEQ, &buffer_wanted), sizeof(golden_set_buffer));
	assert_memory_equal(buf, golden_set_buffer, sizeof(golden_set_buffer));
}

static void dcb_msg_get__names(void **state)
{
	_Alignas(4) uint8_t buf[DCB_MSG_MAX];

	(void)state;
	assert_int_equal(dcb_msg_get(buf, "", SEQ), -EINVAL);
	assert_int_equal(dcb_msg_get(buf, "sixteen-letters-", SEQ), -EINVAL);
	assert_true(dcb_msg_get(buf, "fifteen-letters", SEQ) > 0);
}

/* An answer: a set message is one of RTM_GETDCB but for its type. */
static size_t answer(uint8_t *buf, const struct dcb_settings *s)
{
	int len = dcb_msg_set(buf, "lo", SEQ, s);

	buf[4] = RTM_GETDCB;
	return (size_t)len;
}

static void dcb_msg_read__settings(void **state)
{
	_Alignas(4) uint8_t buf[DCB_MSG_MAX];
	struct dcb_settings both = buffer_wanted, s;

	(void)state;
	both.has_pfc = true;
	both.pfc_cap = 8;
	both.pfc_en = 0x18;
	both.delay = 999;
	assert_int_equal(dcb_msg_read(buf, answer(buf, &both), SEQ, &s), 0);
	assert_true(s.has_pfc && s.has_buffer);
	assert_int_equal(s.pfc_en, 0x18);
	assert_int_equal(s.delay, 999);
	assert_int_equal(s.buffer_size[2], 332448);
	assert_int_equal(s.total_size, 262016);
	assert_int_equal(dcb_compare(&both, &s), 0);
	assert_int_equal(dcb_msg_read(buf, answer(buf, &pfc_wanted), SEQ, &s), 0);
	assert_false(s.has_buffer);
}

static void dcb_msg_read__no_dcb(void **state)
{
	struct dcb_settings s;

	(void)state;
	assert_int_equal(dcb_msg_read(golden_unsupported, sizeof(golden_unsupported), SEQ, &s), -EOPNOTSUPP);
	assert_int_equal(dcb_msg_acked(golden_unsupported, sizeof(golden_unsupported), SEQ), -EOPNOTSUPP);
	assert_int_equal(dcb_msg_read(golden_unsupported, sizeof(golden_unsupported), SEQ + 1, &s), -EBADMSG);
}

static void dcb_msg_acked__answers(void **state)
{
	_Alignas(4) uint8_t ok[] = {0x1c, 0, 0, 0,    0x4f, 0, 0, 0, 0x34, 0xeb, 0,    0x6b, 0, 0,
	                            0,    0, 0, 0x14, 0,    0, 5, 0, 0x0d, 0,    0x00, 0,    0, 0};

	(void)state;
	assert_int_equal(dcb_msg_acked(ok, sizeof(ok), SEQ), 0);
	ok[24] = (uint8_t)-EINVAL;
	assert_int_equal(dcb_msg_acked(ok, sizeof(ok), SEQ), -EINVAL);
	ok[24] = 7;
	assert_int_equal(dcb_msg_acked(ok, sizeof(ok), SEQ), -EBADMSG);
}

/* An answer to something else, an ACK without settings, an answer without a byte in it. */
static void dcb_msg_read__what_is_no_answer(void **state)
{
	_Alignas(4) uint8_t buf[DCB_MSG_MAX];
	_Alignas(4) uint8_t ack[] = {0x14, 0, 0, 0, NLMSG_ERROR, 0, 0, 0, 0x34, 0xeb, 0, 0x6b, 0, 0, 0, 0, 0, 0, 0, 0};
	_Alignas(4) uint8_t empty[] = {0x18, 0, 0, 0, 0x4f, 0,    0, 0, 0x34, 0xeb,          0, 0x6b, 0,
	                               0,    0, 0, 0, 0,    0x14, 0, 4, 0,    DCB_ATTR_IEEE, 0};
	struct dcb_settings s;
	size_t len = answer(buf, &pfc_wanted);

	(void)state;
	assert_int_equal(dcb_msg_acked(buf, len, SEQ), -EBADMSG);
	buf[4] = RTM_SETDCB;
	assert_int_equal(dcb_msg_read(buf, len, SEQ, &s), -EBADMSG);
	assert_int_equal(dcb_msg_acked(ack, sizeof(ack), SEQ), 0);
	assert_int_equal(dcb_msg_read(ack, sizeof(ack), SEQ, &s), -EBADMSG);
	assert_int_equal(dcb_msg_acked(empty, sizeof(empty), SEQ), -EBADMSG);
}

/* Cut anywhere, or with any byte changed: an error or an answer, never a read beyond the end (the sanitizer
 * watches). */
static void dcb_msg_read__hostile(void **state)
{
	_Alignas(4) uint8_t buf[DCB_MSG_MAX], bad[DCB_MSG_MAX];
	struct dcb_settings both = buffer_wanted, s;
	size_t len;

	(void)state;
	both.has_pfc = true;
	len = answer(buf, &both);
	for (size_t cut = 0; cut < len; cut++) {
		uint8_t *exact = malloc(cut > 0 ? cut : 1);

		assert_non_null(exact);
		memcpy(exact, buf, cut);
		assert_true(dcb_msg_read(exact, cut, SEQ, &s) < 0);
		dcb_msg_acked(exact, cut, SEQ);
		free(exact);
	}
	for (size_t at = 0; at < len; at++)
		for (unsigned v = 0; v < 256; v += 17) {
			uint8_t *exact = malloc(len);

			assert_non_null(exact);
			memcpy(bad, buf, len);
			bad[at] = (uint8_t)v;
			memcpy(exact, bad, len);
			dcb_msg_read(exact, len, SEQ, &s);
			dcb_msg_acked(exact, len, SEQ);
			free(exact);
		}
}

static void dcb_compare__what_a_driver_changed(void **state)
{
	struct dcb_settings is = buffer_wanted, want = buffer_wanted;

	(void)state;
	is.buffer_size[1] += 128; /* rounded up */
	assert_int_equal(dcb_compare(&want, &is), 0);
	is.buffer_size[1] = want.buffer_size[1] + DCB_CELLS_BYTES; /* left from another size */
	assert_int_equal(dcb_compare(&want, &is), DCB_DIFF_BUFFER_SIZE);
	is.buffer_size[1] = 100;
	assert_int_equal(dcb_compare(&want, &is), DCB_DIFF_BUFFER_SIZE);
	is.prio2buffer[7] = 1;
	assert_int_equal(dcb_compare(&want, &is), DCB_DIFF_BUFFER_SIZE | DCB_DIFF_PRIO2BUFFER);
	is = want = pfc_wanted;
	is.delay = 7; /* ignored */
	assert_int_equal(dcb_compare(&want, &is), DCB_DIFF_DELAY);
	is.pfc_en = 0;
	assert_int_equal(dcb_compare(&want, &is), DCB_DIFF_DELAY | DCB_DIFF_PFC_EN);
	assert_int_equal(dcb_compare(&buffer_wanted, &pfc_wanted), DCB_DIFF_BUFFER_SIZE | DCB_DIFF_PRIO2BUFFER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(dcb_msg_get__as_dcb_sends_it),
	    cmocka_unit_test(dcb_msg_set__as_dcb_sends_it),
	    cmocka_unit_test(dcb_msg_get__names),
	    cmocka_unit_test(dcb_msg_read__settings),
	    cmocka_unit_test(dcb_msg_read__no_dcb),
	    cmocka_unit_test(dcb_msg_acked__answers),
	    cmocka_unit_test(dcb_msg_read__what_is_no_answer),
	    cmocka_unit_test(dcb_msg_read__hostile),
	    cmocka_unit_test(dcb_compare__what_a_driver_changed),
	};

	return cmocka_run_group_tests_name("headroom_dcb_msg", tests, NULL, NULL);
}
