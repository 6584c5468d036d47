#include "gateway/adapter/adapter_piece.h"

#include "tests/unit/http_kit.h"

/* Reads all pieces of a choice and writes them as "id:bytes:logprob[top=logprob,…] ". */
static enum status read_all(const char *text, struct buffer *out)
{
    json_t *choice = json_loads(text, 0, NULL);
    assert_non_null(choice);
    struct adapter_pieces pieces;
    struct adapter_piece *piece = calloc(1, sizeof *piece);
    buffer_clear(out);
    enum status status = adapter_pieces_find(&pieces, choice);
    while (status == STATUS_OK && pieces.at < pieces.count) {
        status = adapter_pieces_next(&pieces, piece);
        if (status != STATUS_OK)
            break;
        buffer_printf(out, "%d:%.*s:", piece->has_id ? (int)piece->id : -1,
                      (int)piece->bytes.length, piece->bytes.bytes);
        if (piece->has_logprob)
            buffer_printf(out, "%g[", (double)piece->logprob);
        for (uint32_t i = 0; i < piece->top_count; i++)
            buffer_printf(out, "%.*s=%g,", (int)piece->top[i].bytes.length,
                          piece->top[i].bytes.bytes, (double)piece->top[i].logprob);
        buffer_append_text(out, piece->has_logprob ? "] " : " ");
    }
    buffer_append_char(out, '\0');
    json_decref(choice);
    free(piece);
    return status;
}

static void test_forms(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"{}", ""},
        {"{\"logprobs\":null,\"token_ids\":null}", ""},
        {"{\"logprobs\":{\"content\":null},\"token_ids\":[7,0]}", "7:: 0:: "},
        {"{\"logprobs\":{\"content\":[{\"token\":\"?\",\"bytes\":[195],\"logprob\":-1,"
         "\"top_logprobs\":[{\"token\":\"a\",\"logprob\":-2}]}]},\"token_ids\":[5]}",
         "5:\xc3:-1[a=-2,] "},
        {"{\"logprobs\":{\"tokens\":[\"a\",\"b\"],\"token_logprobs\":[-1,-9e99],\"top_logprobs\":"
         "[{\"a\":-1,\"c\":-3},null]}}",
         "-1:a:-1[a=-1,c=-3,] -1:b:-9999[] "},
    };
    struct buffer out;
    buffer_init(&out, 1 << 16);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(read_all(rows[i][0], &out), STATUS_OK);
        assert_string_equal(out.bytes, rows[i][1]);
    }
    buffer_deinit(&out);
}

static void test_malformed(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{\"token_ids\":[1.5]}",
        "{\"token_ids\":[4294967296]}",
        "{\"logprobs\":{\"content\":[7]}}",
        "{\"logprobs\":{\"tokens\":[7]}}",
        "{\"logprobs\":{\"tokens\":[\"a\"]}}",
        ("{\"logprobs\":{\"tokens\":[\"a\"],\"token_logprobs\":[-1],\"top_logprobs\":[{\"a\":\"x\"}"
         "]"
         "}}"),
        "{\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":-1,\"bytes\":[-1]}]}}",
        "{\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":-1}]},\"token_ids\":[1,2]}",
    };
    struct buffer out;
    buffer_init(&out, 1 << 16);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(read_all(rows[i], &out), STATUS_PROTOCOL);
    /* More bytes than a token and its alternatives can have. */
    struct buffer text;
    buffer_init(&text, 1 << 20);
    buffer_append_text(&text,
                       "{\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":-1,\"bytes\":[1");
    for (int i = 0; i < ADAPTER_PIECE_BYTES; i++)
        buffer_append_text(&text, ",1");
    buffer_append_text(&text, "]}]}}");
    buffer_append_char(&text, '\0');
    assert_int_equal(read_all(text.bytes, &out), STATUS_PROTOCOL);
    buffer_deinit(&text);
    buffer_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms),
                                       cmocka_unit_test(test_malformed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
