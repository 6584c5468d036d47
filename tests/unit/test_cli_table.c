/* cli_table: columns line up, ids stay whole, nothing is wider than the terminal. */
#include "gateway/cli/cli_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/base/mem.h"

static const struct cli_table_column columns[] = {
    {"ID", false, true}, {"NAME", false, false}, {"N", true, false}};

static void render(size_t width, const char *const *cells, size_t count, const char *wanted)
{
    struct cli_table table;
    struct buffer out;
    cli_table_init(&table, columns, 3);
    buffer_init(&out, 4096);
    for (size_t i = 0; i < count; i++)
        cli_table_add(&table, slice_of(cells[i]));
    assert_int_equal(cli_table_render(&table, width, &out), STATUS_OK);
    assert_string_equal(out.bytes, wanted);
    buffer_deinit(&out);
    cli_table_deinit(&table);
}

static void test_columns_line_up(void **state)
{
    (void)state;
    static const char *const cells[] = {"a-1", "gl\u00f6bex", "7", "b", "", "1000"};
    render(0, NULL, 0, "ID  NAME  N\n");
    render(0, cells, 6,
           "ID   NAME       N\n"
           "a-1  gl\xc3\xb6"
           "bex     7\n"
           "b            1000\n");
}

static void test_width(void **state)
{
    (void)state;
    static const char *const cells[] = {"an-id-of-14-ch", "a name that is long", "7"};
    /* 14 + 2 + 19 + 2 + 1 = 38 columns. */
    render(38, cells, 3,
           "ID              NAME                 N\n"
           "an-id-of-14-ch  a name that is long  7\n");
    render(37, cells, 3,
           "ID              NAME                N\n"
           "an-id-of-14-ch  a name that is lo\xe2\x80\xa6  7\n");
    /* The id stays whole and a name keeps six columns, whatever the terminal. */
    render(10, cells, 3,
           "ID              NAME    N\n"
           "an-id-of-14-ch  a nam\xe2\x80\xa6  7\n");
}

static void test_a_cell_cannot_break_the_table(void **state)
{
    (void)state;
    static const char *const cells[] = {"x\ny", "\x1b[2J", "7"};
    render(0, cells, 3,
           "ID   NAME  N\n"
           "x\xef\xbf\xbdy  \xef\xbf\xbd[2J  7\n");
}

static int no_memory(void *context, size_t bytes)
{
    (void)context;
    (void)bytes;
    return 1;
}

static void test_no_memory(void **state)
{
    (void)state;
    struct cli_table table;
    struct buffer out;
    cli_table_init(&table, columns, 3);
    buffer_init(&out, 4096);
    mem_hook_set(no_memory, NULL);
    for (int i = 0; i < 3; i++)
        cli_table_add(&table, SLICE("cell"));
    assert_int_equal(cli_table_render(&table, 0, &out), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
    buffer_deinit(&out);
    cli_table_deinit(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_line_up),
        cmocka_unit_test(test_width),
        cmocka_unit_test(test_a_cell_cannot_break_the_table),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
