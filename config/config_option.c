#include "config/config_option.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "config/base/edit_distance.h"
#include "config/base/limits.h"
#include "config/base/utf8.h"
#include "config/config_text.h"

/* The macros' parameters differ from the fields' names (option_name and name); otherwise the
 * preprocessor would replace .name. */
#define ROW(option_kind, option_name, ...)                                                         \
    {.kind = CONFIG_OPTION_##option_kind,                                                          \
     .name = #option_name,                                                                         \
     .offset = offsetof(struct config, option_name),                                               \
     __VA_ARGS__},

const struct config_option config_option_table[] = {
#define OPTION_GROUP(title) {.kind = CONFIG_OPTION_GROUP, .name = "", .help = (title)},
#define OPTION_TEXT(option_name, value, reload, role_bits, text)                                   \
    ROW(TEXT, option_name, .fallback_text = (value), .is_reloadable = (reload),                    \
        .roles = (role_bits), .help = (text))
#define OPTION_NUMBER(option_name, value, low, high, reload, role_bits, text)                      \
    ROW(NUMBER, option_name, .fallback = (value), .least = (low), .most = (high),                  \
        .is_reloadable = (reload), .roles = (role_bits), .help = (text))
#define OPTION_BYTES(option_name, value, low, high, reload, role_bits, text)                       \
    ROW(BYTES, option_name, .fallback = (value), .least = (low), .most = (high),                   \
        .is_reloadable = (reload), .roles = (role_bits), .help = (text))
#define OPTION_BOOL(option_name, value, reload, role_bits, text)                                   \
    ROW(BOOL, option_name, .fallback = (value), .least = 0, .most = 1, .is_reloadable = (reload),  \
        .roles = (role_bits), .help = (text))
#define OPTION_LIST(option_name, reload, role_bits, text)                                          \
    ROW(LIST, option_name, .fallback_text = "", .is_reloadable = (reload), .roles = (role_bits),   \
        .help = (text))
#include "config/options.def"
#undef OPTION_LIST
#undef OPTION_GROUP
#undef OPTION_TEXT
#undef OPTION_NUMBER
#undef OPTION_BYTES
#undef OPTION_BOOL
};

/* A row that contradicts itself does not compile; the message begins with its name. Two rows of one
 * name are two fields of struct config: the compiler says which. */
#define ALL_ROLES     (CONFIG_SERVE | CONFIG_EDGE | CONFIG_ENGINE | CONFIG_BENCH)
#define RELOADS_ROLES (CONFIG_SERVE | CONFIG_EDGE | CONFIG_ENGINE)
#define ROLES_FIT(name, reload, roles)                                                             \
    _Static_assert((roles) != 0 && ((roles) & ~ALL_ROLES) == 0,                                    \
                   "option " #name ": it belongs to no subcommand");                               \
    _Static_assert(!(reload) || ((roles)&RELOADS_ROLES) != 0,                                      \
                   "option " #name ": none of its subcommands reloads");
#define NUMBER_FITS(name, value, low, high)                                                        \
    _Static_assert((low) < (high), "option " #name ": its bounds allow one value, or none");       \
    _Static_assert((value) >= (low) && (value) <= (high),                                          \
                   "option " #name ": its default is out of its bounds");
#define OPTION_GROUP(title)
#define OPTION_TEXT(name, value, reload, roles, text) ROLES_FIT(name, reload, roles)
#define OPTION_LIST(name, reload, roles, text)        ROLES_FIT(name, reload, roles)
#define OPTION_NUMBER(name, value, low, high, reload, roles, text)                                 \
    ROLES_FIT(name, reload, roles) NUMBER_FITS(name, value, low, high)
#define OPTION_BYTES(name, value, low, high, reload, roles, text)                                  \
    ROLES_FIT(name, reload, roles)                                                                 \
    NUMBER_FITS(name, value, low, high)                                                            \
    _Static_assert((low) >= 0, "option " #name ": bytes are not negative");
#define OPTION_BOOL(name, value, reload, roles, text)                                              \
    ROLES_FIT(name, reload, roles)                                                                 \
    _Static_assert((value) == false || (value) == true, "option " #name ": its default is no "     \
                                                        "bool");
#include "config/options.def"
#undef OPTION_GROUP
#undef OPTION_TEXT
#undef OPTION_LIST
#undef OPTION_NUMBER
#undef OPTION_BYTES
#undef OPTION_BOOL

const size_t config_option_count = sizeof config_option_table / sizeof config_option_table[0];

static char find_fold(char c)
{
    return c == '-' ? '_' : (char)tolower((unsigned char)c);
}

static bool find_matches(const char *name, struct slice wanted)
{
    size_t i = 0;
    for (; i < wanted.length && name[i] != '\0'; i++) {
        if (find_fold(wanted.bytes[i]) != name[i])
            return false;
    }
    return i == wanted.length && name[i] == '\0';
}

const struct config_option *config_option_find(struct slice name)
{
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_option_table[i];
        if (option->kind != CONFIG_OPTION_GROUP && find_matches(option->name, name))
            return option;
    }
    return NULL;
}

const struct config_option *config_option_nearest(struct slice name, unsigned roles,
                                                  size_t distance_max)
{
    const struct config_option *nearest = NULL;
    size_t least = distance_max + 1;
    if (name.length >= CONFIG_OPTION_NAME_BYTES)
        return NULL;
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_option_table[i];
        if (option->kind == CONFIG_OPTION_GROUP || (option->roles & roles) == 0)
            continue;
        size_t distance = edit_distance(option->name, name, find_fold);
        if (distance < least) {
            least = distance;
            nearest = option;
        }
    }
    return nearest;
}

static int parse_shift(char suffix)
{
    switch (tolower((unsigned char)suffix)) {
    case 'k':
        return 10;
    case 'm':
        return 20;
    case 'g':
        return 30;
    case 't':
        return 40;
    default:
        return -1;
    }
}

/* Reads decimal digits with an optional minus. False for any other text and beyond int64_t. */
static bool parse_integer(struct slice text, int64_t *out)
{
    bool is_negative = text.length > 0 && text.bytes[0] == '-';
    size_t start = is_negative ? 1 : 0;
    int64_t value = 0;
    if (start == text.length)
        return false;
    for (size_t i = start; i < text.length; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9')
            return false;
        int digit = text.bytes[i] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, is_negative ? -digit : digit, &value))
            return false;
    }
    *out = value;
    return true;
}

static bool parse_bytes(struct slice text, int64_t *out)
{
    int shift = text.length > 0 ? parse_shift(text.bytes[text.length - 1]) : -1;
    if (shift > 0)
        text.length--;
    int64_t factor = (int64_t)1 << (shift > 0 ? shift : 0);
    return parse_integer(text, out) && !__builtin_mul_overflow(*out, factor, out);
}

static bool parse_bool(struct slice text, int64_t *out)
{
    *out = slice_is(text, "true") ? 1 : 0;
    return *out == 1 || slice_is(text, "false");
}

enum status config_option_check(const struct config_option *option, const char *source,
                                int64_t number)
{
    if (number >= option->least && number <= option->most)
        return STATUS_OK;
    char least[24];
    char most[24];
    snprintf(least, sizeof least, "%" PRId64, option->least);
    snprintf(most, sizeof most, "%" PRId64, option->most);
    if (option->kind == CONFIG_OPTION_BYTES) {
        config_option_bytes_text(option->least, least);
        config_option_bytes_text(option->most, most);
    }
    FAIL_PARAM(STATUS_OUT_OF_RANGE, option->name, "%s is %" PRId64 ", but must be from %s to %s",
               source, number, least, most);
}

static enum status check_length(const struct config_option *option, const char *source,
                                size_t length, size_t most)
{
    if (length > most)
        FAIL_PARAM(STATUS_INVALID, option->name, "%s is longer than %zu bytes", source, most);
    return STATUS_OK;
}

/* Checks each element of a list. */
static enum status check_elements(const struct config_option *option, const char *source,
                                  struct slice text)
{
    size_t start = 0;
    for (size_t i = 0; i <= text.length; i++) {
        if (i < text.length && text.bytes[i] != ' ')
            continue;
        TRY(check_length(option, source, i - start, LIMIT_OPTION_BYTES));
        if (i > start)
            TRY(config_text_check(option, source, (struct slice){text.bytes + start, i - start}));
        start = i + 1;
    }
    return STATUS_OK;
}

enum status config_option_check_text(const struct config_option *option, const char *source,
                                     struct slice text)
{
    TRY(check_length(option, source, text.length,
                     option->kind == CONFIG_OPTION_LIST ? CONFIG_OPTION_LIST_BYTES
                                                        : LIMIT_OPTION_BYTES));
    for (size_t i = 0; i < text.length; i++) {
        if ((unsigned char)text.bytes[i] < 0x20 || text.bytes[i] == 0x7f)
            FAIL_PARAM(STATUS_INVALID, option->name, "%s holds a control character", source);
    }
    if (!utf8_is_valid(text.bytes, text.length))
        FAIL_PARAM(STATUS_INVALID, option->name, "%s is not UTF-8", source);
    if (option->kind == CONFIG_OPTION_LIST)
        return check_elements(option, source, text);
    return option->kind == CONFIG_OPTION_TEXT ? config_text_check(option, source, text) : STATUS_OK;
}

enum status config_option_parse(const struct config_option *option, const char *source,
                                struct slice text, struct config_option_value *out)
{
    *out = (struct config_option_value){.text = text};
    TRY(config_option_check_text(option, source, text));
    switch (option->kind) {
    case CONFIG_OPTION_TEXT:
    case CONFIG_OPTION_LIST:
        return STATUS_OK;
    case CONFIG_OPTION_NUMBER:
        if (!parse_integer(text, &out->number))
            FAIL_PARAM(STATUS_INVALID, option->name, "%s must be a whole number, not '%.40s'",
                       source, text.bytes);
        return config_option_check(option, source, out->number);
    case CONFIG_OPTION_BYTES:
        if (!parse_bytes(text, &out->number))
            FAIL_PARAM(STATUS_INVALID, option->name,
                       "%s must be a number of bytes such as 512M or 2G, not '%.40s'", source,
                       text.bytes);
        return config_option_check(option, source, out->number);
    case CONFIG_OPTION_BOOL:
        if (!parse_bool(text, &out->number))
            FAIL_PARAM(STATUS_INVALID, option->name, "%s must be true or false, not '%.40s'",
                       source, text.bytes);
        return STATUS_OK;
    case CONFIG_OPTION_GROUP:
        break;
    }
    ASSERT(option->kind != CONFIG_OPTION_GROUP);
    return STATUS_OK;
}

static const char *text_of(const struct config_option *option, const struct config *config)
{
    const char *text;
    memcpy(&text, (const char *)config + option->offset, sizeof text);
    return text;
}

static int64_t number_of(const struct config_option *option, const struct config *config)
{
    int64_t number;
    const char *field = (const char *)config + option->offset;
    if (option->kind == CONFIG_OPTION_BOOL)
        return *field != 0;
    memcpy(&number, field, sizeof number);
    return number;
}

static void render_list(const char *text, struct buffer *out)
{
    buffer_append_char(out, '[');
    for (size_t count = 0; *text != '\0'; count++) {
        const size_t length = strcspn(text, " ");
        if (count > 0)
            buffer_append_char(out, ',');
        buffer_append_json_string(out, (struct slice){text, length});
        text += length;
        text += strspn(text, " ");
    }
    buffer_append_char(out, ']');
}

void config_option_render(const struct config_option *option, const struct config *config,
                          struct buffer *out)
{
    if (option->kind == CONFIG_OPTION_LIST)
        render_list(text_of(option, config), out);
    else if (option->kind == CONFIG_OPTION_TEXT)
        buffer_append_json_string(out, slice_of(text_of(option, config)));
    else if (option->kind == CONFIG_OPTION_BOOL)
        buffer_append_text(out, number_of(option, config) != 0 ? "true" : "false");
    else
        buffer_printf(out, "%" PRId64, number_of(option, config));
}

bool config_option_is_same(const struct config_option *option, const struct config *a,
                           const struct config *b)
{
    if (option->kind == CONFIG_OPTION_GROUP)
        return true;
    if (option->kind == CONFIG_OPTION_TEXT || option->kind == CONFIG_OPTION_LIST)
        return strcmp(text_of(option, a), text_of(option, b)) == 0;
    return number_of(option, a) == number_of(option, b);
}

void config_option_bytes_text(int64_t bytes, char out[24])
{
    static const char suffixes[] = "KMGT";
    int shift = 0;
    while (shift < 4 && bytes != 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        shift++;
    }
    snprintf(out, 24, "%" PRId64 "%.*s", bytes, shift > 0 ? 1 : 0,
             suffixes + (shift > 0 ? shift - 1 : 0));
}

void config_option_flag(const struct config_option *option, char out[CONFIG_OPTION_NAME_BYTES])
{
    snprintf(out, CONFIG_OPTION_NAME_BYTES, "--%s", option->name);
    for (char *c = out + 2; *c != '\0'; c++) {
        if (*c == '_')
            *c = '-';
    }
}

void config_option_variable(const struct config_option *option, char out[CONFIG_OPTION_NAME_BYTES])
{
    snprintf(out, CONFIG_OPTION_NAME_BYTES, "BANYAN_%s", option->name);
    for (char *c = out; *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c);
}

void config_option_roles_text(unsigned roles, char out[CONFIG_OPTION_NAME_BYTES])
{
    static const char *const names[] = {"serve", "edge", "engine", "bench"};
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if ((roles & (1u << i)) != 0)
            used += (size_t)snprintf(out + used, CONFIG_OPTION_NAME_BYTES - used, "%s%s",
                                     used > 0 ? ", " : "", names[i]);
    }
}
