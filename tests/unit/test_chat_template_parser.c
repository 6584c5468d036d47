/* Programs made of templates; everything that is refused, by its name and line; limits; memory. */
#include "engine/text/chat_template_parser.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/mem.h"

static enum status parse(struct slice source)
{
    struct chat_template_program program;
    enum status status = chat_template_parser_run(&program, source);
    if (status == STATUS_OK)
        assert_int_equal(program.code[program.count - 1].kind, CHAT_TEMPLATE_CODE_END);
    else
        assert_null(program.code);
    chat_template_parser_free(&program);
    return status;
}

static void operators_bind_as_in_jinja(void **state)
{
    (void)state;
    static const uint32_t want[] = {CHAT_TEMPLATE_CODE_INTEGER, CHAT_TEMPLATE_CODE_INTEGER,
                                    CHAT_TEMPLATE_CODE_INTEGER, CHAT_TEMPLATE_CODE_CONCAT,
                                    CHAT_TEMPLATE_CODE_ADD,     CHAT_TEMPLATE_CODE_INTEGER,
                                    CHAT_TEMPLATE_CODE_EQUAL,   CHAT_TEMPLATE_CODE_NOT,
                                    CHAT_TEMPLATE_CODE_PRINT,   CHAT_TEMPLATE_CODE_END};
    struct chat_template_program program;
    assert_int_equal(chat_template_parser_run(&program, SLICE("{{ not 1 + 2 ~ 3 == 4 }}")),
                     STATUS_OK);
    assert_int_equal(program.count, sizeof want / sizeof want[0]);
    for (uint32_t i = 0; i < program.count; i++)
        assert_int_equal(program.code[i].kind, want[i]);
    chat_template_parser_free(&program);
}

static void jumps_land_behind_their_branch(void **state)
{
    (void)state;
    struct chat_template_program program;
    struct slice source = SLICE("{% if a %}x{% elif b %}y{% else %}z{% endif %}"
                                "{% for m in messages %}w{% endfor %}");
    assert_int_equal(chat_template_parser_run(&program, source), STATUS_OK);
    /* 0 NAME 1 JUMP_FALSE 2 TEXT 3 JUMP 4 NAME 5 JUMP_FALSE 6 TEXT 7 JUMP 8 TEXT
     * 9 NAME 10 FOR 11 SET 12 TEXT 13 NEXT 14 END; jumps are relative */
    assert_int_equal(program.count, 15);
    assert_int_equal(program.code[1].a, 3);
    assert_int_equal(program.code[3].a, 6);
    assert_int_equal(program.code[5].a, 3);
    assert_int_equal(program.code[7].a, 2);
    assert_int_equal(program.code[10].a, 4);
    assert_int_equal((int32_t)program.code[13].a, -2);
    chat_template_parser_free(&program);
}

/* The value of an inline if is computed behind its condition. */
static void instructions_move_behind_a_condition(void **state)
{
    (void)state;
    static const uint32_t want[] = {CHAT_TEMPLATE_CODE_NAME,   CHAT_TEMPLATE_CODE_JUMP_FALSE,
                                    CHAT_TEMPLATE_CODE_STRING, CHAT_TEMPLATE_CODE_JUMP,
                                    CHAT_TEMPLATE_CODE_STRING, CHAT_TEMPLATE_CODE_PRINT,
                                    CHAT_TEMPLATE_CODE_END};
    struct chat_template_program program;
    assert_int_equal(chat_template_parser_run(&program, SLICE("{{ 'a' if x else 'b' }}")),
                     STATUS_OK);
    assert_int_equal(program.count, sizeof want / sizeof want[0]);
    for (uint32_t i = 0; i < program.count; i++)
        assert_int_equal(program.code[i].kind, want[i]);
    assert_int_equal(program.code[1].a, 3);
    assert_int_equal(program.code[3].a, 2);
    assert_int_equal(program.literals.bytes[program.code[2].a], 'a');
    chat_template_parser_free(&program);
}

static void refused_constructs_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        const char *message;
    } cases[] = {
        {"\n\n{{ x | attr('a') }}", "line 3: filter 'attr' is not supported"},
        {"{{ x is sameas(y) }}", "line 1: test 'sameas' is not supported"},
        {"{% import 'os' as os %}", "line 1: statement 'import' is not supported"},
        {"{% include 'x' %}", "line 1: statement 'include' is not supported"},
        {"{% extends 'x' %}", "line 1: statement 'extends' is not supported"},
        {"{% raw %}{% endraw %}", "line 1: statement 'raw' is not supported"},
        {"\n{% do x %}", "line 2: statement 'do' is not supported"},
        {"{% with a = 1 %}{% endwith %}", "line 1: statement 'with' is not supported"},
        {"{{ x.swapcase() }}", "line 1: method 'swapcase' is not supported"},
        {"{{ f(*x) }}", "line 1: a list of arguments after '*' is not supported"},
        {"{{ f(**x) }}", "line 1: a list of arguments after '**' is not supported"},
        {"{{ x[1, 2] }}", "line 1: an index of several values is not supported"},
        {"{{ 1234567890123456789 }}", "line 1: number '1234567890123456789' is not supported"},
        {"{{ 0x10 }}", "line 1: number '0x10' is not supported"},
        {"{% for m in x recursive %}", "line 1: a loop that is 'recursive' is not supported"},
        {"{% for loop in x %}", "line 1: a variable of the name 'loop' is not supported"},
        {"{% set true = 1 %}", "line 1: a variable of the name 'true' is not supported"},
        {"{% for x in y %}{% macro f() %}{% endmacro %}{% endfor %}",
         "line 1: a macro inside of a loop, a macro or a block is not supported"},
        {"{% for x in y %}{% set z %}{% break %}{% endset %}{% endfor %}",
         "line 1: inside of a block with a text of its own, a 'break' is not supported"},
        {"{% macro f() %}{{ varargs }}{% endmacro %}",
         "line 1: a variable of the name 'varargs' is not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum status status = parse(slice_of(cases[i].source));
        if (status != STATUS_UNSUPPORTED ||
            strstr(status_note()->message, cases[i].message) == NULL)
            fail_msg("%s: %s, '%s'", cases[i].source, status_name(status), status_note()->message);
    }
}

/* CVE-2024-34359 (llama-cpp-python): a template in a model file reached Python's classes through
 * attributes of a literal. Here such names are refused, and as a key they are those of no value. */
static void ways_out_of_the_template_are_refused(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "{{ ''.__class__ }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ x.__class__ }}",
        "{{ messages.__class__.__base__ }}",
        "{{ ('').__class__ }}",
        "{{ x | attr('__class__') }}",
        "{{ self.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ __import__ }}",
        "{% set __x = 1 %}",
        "{% for c in [].__class__.__base__.__subclasses__() %}{% endfor %}",
        "{% for x in ().__class__.__base__.__subclasses__() %}{% if \"warning\" in x.__name__ %}"
        "{{ x()._module.__builtins__['__import__']('os').popen('id').read() }}{% endif %}"
        "{% endfor %}",
    };
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        enum status status = parse(slice_of(sources[i]));
        if (status == STATUS_OK)
            fail_msg("%s is taken", sources[i]);
    }
    assert_int_equal(parse(SLICE("{{ ''.__class__ }}")), STATUS_UNSUPPORTED);
    assert_non_null(strstr(status_note()->message, "line 1: "));
    assert_non_null(strstr(status_note()->message, "'__class__'"));
}

static void wrong_templates_are_corrupt(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "{{ }}",
        "{{ 1 + }}",
        "{{ (1 }}",
        "{{ 1) }}",
        "{{ x[0) }}",
        "{{ (0] }}",
        "{{ and }}",
        "{{ 1 2 }}",
        "{{ 1 == not 2 }}",
        "{{ x not 1 }}",
        "{% %}",
        "{% endif %}",
        "{% endfor %}",
        "{% else %}",
        "{% elif x %}",
        "{% if x %}",
        "{% for m in messages %}",
        "{% if x %}{% endfor %}",
        "{% for m in messages %}{% endif %}",
        "{% if x %}{% else %}{% else %}{% endif %}",
        "{% if x %}{% else %}{% elif y %}{% endif %}",
        "{% for 1 in x %}",
        "{% for m of x %}",
        "{% break %}",
        "{% if x %}{% continue %}{% endif %}",
        "{{ x | }}",
        "{{ x is }}",
        "{{ x. }}",
        "{{ x[] }}",
        "{{ f(a=1, 2) }}",
        "{{ [1 2] }}",
        "{{ {1} }}",
        "{{ 'a' if }}",
        "{% set x %}",
        "{% macro f %}{% endmacro %}",
        "{% macro f() %}",
        "{% call f %}{% endcall %}",
        "{% filter upper %}",
        "{% generation %}",
        "{% for a b in x %}{% endfor %}",
        "{% endif x %}",
        "{% if x %}{% else y %}{% endif %}",
    };
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        enum status status = parse(slice_of(sources[i]));
        if (status != STATUS_CORRUPT || strncmp(status_note()->message, "line 1: ", 8) != 0)
            fail_msg("%s: %s, '%s'", sources[i], status_name(status), status_note()->message);
    }
}

/* `head`, `count` times `unit`, `middle`, `count` times `end`. */
static enum status parse_repeated(const char *head, const char *unit, size_t count,
                                  const char *middle, const char *end)
{
    struct buffer source;
    buffer_init(&source, 1024 * 1024);
    buffer_append_text(&source, head);
    for (size_t i = 0; i < count; i++)
        buffer_append_text(&source, unit);
    buffer_append_text(&source, middle);
    for (size_t i = 0; i < count; i++)
        buffer_append_text(&source, end);
    enum status status = parse(buffer_slice(&source));
    buffer_deinit(&source);
    return status;
}

static void limits_hold(void **state)
{
    (void)state;
    size_t depth = LIMIT_TEMPLATE_DEPTH;
    assert_int_equal(parse_repeated("", "{% if x %}", depth, "", "{% endif %}"), STATUS_OK);
    assert_int_equal(parse_repeated("", "{% if x %}", depth + 1, "", "{% endif %}"), STATUS_LIMIT);
    assert_int_equal(parse_repeated("", "{% for x in x %}", depth, "", "{% endfor %}"), STATUS_OK);
    assert_int_equal(parse_repeated("", "{% for x in x %}", depth + 1, "", "{% endfor %}"),
                     STATUS_LIMIT);
    /* The expression itself is the first level. */
    static const char *const nested[] = {"(", "[", "- ", "f(", "x[", "1 if x else "};
    for (size_t i = 0; i < sizeof nested / sizeof nested[0]; i++) {
        assert_int_not_equal(parse_repeated("{{ ", nested[i], depth - 1, "1 }}", ""), STATUS_LIMIT);
        assert_int_equal(parse_repeated("{{ ", nested[i], depth, "1 }}", ""), STATUS_LIMIT);
    }
    assert_int_equal(parse_repeated("{{ ", "not ", 1000, "1 }}", ""), STATUS_OK);
    assert_int_equal(parse_repeated("{{ f(", "1,", LIMIT_TEMPLATE_DEPTH, ") }}", ""), STATUS_OK);
    assert_int_equal(parse_repeated("{{ f(", "1,", LIMIT_TEMPLATE_DEPTH + 1, ") }}", ""),
                     STATUS_LIMIT);
    /* The template itself is the first scope. */
    assert_int_equal(
        parse_repeated("", "{% macro f() %}{% endmacro %}", LIMIT_TEMPLATE_NAMES - 1, "", ""),
        STATUS_OK);
    assert_int_equal(
        parse_repeated("", "{% macro f() %}{% endmacro %}", LIMIT_TEMPLATE_NAMES, "", ""),
        STATUS_LIMIT);
    assert_int_equal(
        parse_repeated("", "{% for x in x %}{% endfor %}", LIMIT_TEMPLATE_NAMES - 1, "", ""),
        STATUS_OK);
    assert_int_equal(
        parse_repeated("", "{% for x in x %}{% endfor %}", LIMIT_TEMPLATE_NAMES, "", ""),
        STATUS_LIMIT);
    /* One instruction each, and END. */
    assert_int_equal(parse_repeated("", "a{##}", LIMIT_TEMPLATE_NODES - 1, "", ""), STATUS_OK);
    assert_int_equal(parse_repeated("", "a{##}", LIMIT_TEMPLATE_NODES, "", ""), STATUS_LIMIT);
}

static void variables_have_a_limit(void **state)
{
    (void)state;
    for (int own = LIMIT_TEMPLATE_NAMES - CHAT_TEMPLATE_CODE_NAME_GIVEN, more = 0; more < 2;
         more++) {
        struct buffer source;
        buffer_init(&source, 65536);
        for (int i = 0; i < own + more; i++)
            buffer_printf(&source, "{{ v%d }}{{ v%d }}", i, i);
        assert_int_equal(parse(buffer_slice(&source)), more == 0 ? STATUS_OK : STATUS_LIMIT);
        buffer_deinit(&source);
    }
}

static int fail_at(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- == 0;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    int n = 0;
    for (;; n++) {
        int left = n;
        mem_hook_set(fail_at, &left);
        enum status status = parse_repeated("", "{{ x + 'abc' }} text ", 40, "", "");
        mem_hook_set(NULL, NULL);
        if (left >= 0) {
            assert_int_equal(status, STATUS_OK);
            break;
        }
    }
    assert_true(n >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_bind_as_in_jinja),
        cmocka_unit_test(jumps_land_behind_their_branch),
        cmocka_unit_test(instructions_move_behind_a_condition),
        cmocka_unit_test(refused_constructs_are_named),
        cmocka_unit_test(ways_out_of_the_template_are_refused),
        cmocka_unit_test(wrong_templates_are_corrupt),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(variables_have_a_limit),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
