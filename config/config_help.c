#include <inttypes.h>
#include <stdio.h>

#include "config/base/limits.h"
#include "config/config.h"
#include "config/config_option.h"

enum { HELP_COLUMNS = 80, HELP_INDENT = 28 };

static const char *const kind_words[] = {"", "TEXT", "N", "BYTES", "", "TEXT"};

enum { NUMBER_BYTES = 24, BOUNDS_BYTES = 64, VALUES_BYTES = 96 };

static void number_text(const struct config_option *option, int64_t number, char out[NUMBER_BYTES])
{
    if (option->kind == CONFIG_OPTION_BYTES)
        config_option_bytes_text(number, out);
    else
        snprintf(out, NUMBER_BYTES, "%" PRId64, number);
}

/* The default as it is typed; "" when there is none. */
static const char *fallback_text(const struct config_option *option, char out[NUMBER_BYTES])
{
    if (option->kind == CONFIG_OPTION_BOOL)
        return option->fallback != 0 ? "true" : "false";
    if (option->kind == CONFIG_OPTION_TEXT || option->kind == CONFIG_OPTION_LIST)
        return option->fallback_text;
    number_text(option, option->fallback, out);
    return out;
}

/* "1M to 1T", or "" for what is no number. */
static void bounds_text(const struct config_option *option, char out[BOUNDS_BYTES])
{
    char least[NUMBER_BYTES];
    char most[NUMBER_BYTES];
    out[0] = '\0';
    if (option->kind == CONFIG_OPTION_BOOL || option->kind == CONFIG_OPTION_TEXT ||
        option->kind == CONFIG_OPTION_LIST)
        return;
    number_text(option, option->least, least);
    number_text(option, option->most, most);
    snprintf(out, BOUNDS_BYTES, "%s to %s", least, most);
}

/* "default 1G; 1M to 1T", or "" when the option has neither. */
static void numbers_text(const struct config_option *option, char out[VALUES_BYTES])
{
    char number[NUMBER_BYTES];
    char bounds[BOUNDS_BYTES];
    const char *fallback = fallback_text(option, number);
    bounds_text(option, bounds);
    out[0] = '\0';
    if (fallback[0] != '\0')
        snprintf(out, VALUES_BYTES, "default %s%s%s", fallback, bounds[0] != '\0' ? "; " : "",
                 bounds);
}

/* Appends the words of `text` from column `column` on, wrapped; further lines are indented. */
static void help_wrap(struct buffer *out, const char *text, size_t column)
{
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (column > HELP_INDENT && column + 1 + word > HELP_COLUMNS) {
            buffer_printf(out, "\n%*s", HELP_INDENT, "");
            column = HELP_INDENT;
        } else if (column > HELP_INDENT) {
            buffer_append_char(out, ' ');
            column++;
        }
        buffer_append(out, text, word);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    buffer_append_char(out, '\n');
}

static void help_option(const struct config_option *option, struct buffer *out)
{
    char flag[CONFIG_OPTION_NAME_BYTES];
    char left[CONFIG_OPTION_NAME_BYTES + 16];
    char numbers[VALUES_BYTES];
    char text[1024];
    config_option_flag(option, flag);
    snprintf(left, sizeof left, "  %s %s", flag, kind_words[option->kind]);
    numbers_text(option, numbers);
    snprintf(text, sizeof text, "%s%s%s%s", option->help, numbers[0] != '\0' ? " (" : "", numbers,
             numbers[0] != '\0' ? ")" : "");
    buffer_printf(out, "%-*s", HELP_INDENT, left);
    if (strlen(left) >= HELP_INDENT)
        buffer_printf(out, "\n%*s", HELP_INDENT, "");
    help_wrap(out, text, HELP_INDENT);
}

void config_help(enum config_role role, struct buffer *out)
{
    const struct config_option *group = NULL;
    const char *separator = "";
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_option_table[i];
        if (option->kind == CONFIG_OPTION_GROUP) {
            group = option;
        } else if ((option->roles & role) != 0) {
            if (group != NULL) {
                buffer_printf(out, "%s%s\n", separator, group->help);
                separator = "\n";
            }
            group = NULL;
            help_option(option, out);
        }
    }
    buffer_append_text(
        out, "\nBYTES may end in K, M, G or T (powers of 1024). --kv-memory is\n"
             "BANYAN_KV_MEMORY in the environment and \"kv_memory\" in the JSON file. A flag\n"
             "overrides the environment, which overrides the file.\n");
}

static void schema_option(const struct config_option *option, struct buffer *out)
{
    buffer_append_json_string(out, slice_of(option->name));
    buffer_append_text(out, ":{");
    if (option->kind == CONFIG_OPTION_TEXT) {
        buffer_printf(out, "\"type\":\"string\",\"maxLength\":%d,\"default\":", LIMIT_OPTION_BYTES);
        buffer_append_json_string(out, slice_of(option->fallback_text));
    } else if (option->kind == CONFIG_OPTION_LIST) {
        buffer_printf(out,
                      "\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":%d,"
                      "\"pattern\":\"^[^ ]+$\"},\"default\":[]",
                      LIMIT_OPTION_BYTES);
    } else if (option->kind == CONFIG_OPTION_BOOL) {
        buffer_printf(out, "\"type\":\"boolean\",\"default\":%s",
                      option->fallback != 0 ? "true" : "false");
    } else {
        const char *form = option->kind == CONFIG_OPTION_NUMBER
                               ? "\"type\":\"integer\""
                               : "\"type\":[\"integer\",\"string\"],\"pattern\":"
                                 "\"^[0-9]+[KMGTkmgt]?$\"";
        buffer_printf(out,
                      "%s,\"minimum\":%" PRId64 ",\"maximum\":%" PRId64 ",\"default\":%" PRId64,
                      form, option->least, option->most, option->fallback);
    }
    buffer_append_text(out, ",\"description\":");
    buffer_append_json_string(out, slice_of(option->help));
    buffer_append_char(out, '}');
}

/* --config names the file, so the file cannot contain it. */
static bool is_in_file(const struct config_option *option)
{
    return option->kind != CONFIG_OPTION_GROUP && strcmp(option->name, "config") != 0;
}

void config_schema(struct buffer *out)
{
    buffer_append_text(out, "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\","
                            "\"title\":\"Banyan options\",\"type\":\"object\","
                            "\"additionalProperties\":false,\"properties\":{");
    const char *separator = "\n";
    for (size_t i = 0; i < config_option_count; i++) {
        if (!is_in_file(&config_option_table[i]))
            continue;
        buffer_append_text(out, separator);
        schema_option(&config_option_table[i], out);
        separator = ",\n";
    }
    buffer_append_text(out, "}}\n");
}

void config_markdown(struct buffer *out)
{
    buffer_append_text(out, "| option | what | default | bounds | subcommands |\n"
                            "| --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_option_table[i];
        char flag[CONFIG_OPTION_NAME_BYTES];
        char roles[CONFIG_OPTION_NAME_BYTES];
        char number[NUMBER_BYTES];
        char bounds[BOUNDS_BYTES];
        if (option->kind == CONFIG_OPTION_GROUP)
            continue;
        config_option_flag(option, flag);
        config_option_roles_text(option->roles, roles);
        bounds_text(option, bounds);
        buffer_printf(out, "| `%s%s%s` | %s | %s | %s | %s |\n", flag,
                      kind_words[option->kind][0] != '\0' ? " " : "", kind_words[option->kind],
                      option->help, fallback_text(option, number), bounds, roles);
    }
}

void config_render(const struct config *config, struct buffer *out)
{
    const char *separator = "{\n  ";
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_option_table[i];
        if (!is_in_file(option))
            continue;
        buffer_printf(out, "%s\"%s\": ", separator, option->name);
        separator = ",\n  ";
        config_option_render(option, config, out);
    }
    buffer_append_text(out, "\n}\n");
}

void config_describe(const struct config *config, struct buffer *out)
{
    static const char *const words[] = {"default", "file", "environment", "flag"};
    const char *separator = "";
    buffer_append_text(out, "\"file\":");
    if (config->config[0] != '\0')
        buffer_append_json_string(out, slice_of(config->config));
    else
        buffer_append_text(out, "null");
    buffer_append_text(out, ",\"options\":");
    config_render(config, out);
    buffer_append_text(out, ",\"sources\":");
    for (size_t i = 0; i < config_option_count; i++) {
        if (!is_in_file(&config_option_table[i]))
            continue;
        buffer_printf(out, "%s\"%s\":\"%s\"", separator[0] == '\0' ? "{" : separator,
                      config_option_table[i].name, words[config_source_of(config, i)]);
        separator = ",";
    }
    buffer_append_text(out, "},\"reloadable\":");
    separator = "[";
    for (size_t i = 0; i < config_option_count; i++) {
        if (!config_option_table[i].is_reloadable)
            continue;
        buffer_printf(out, "%s\"%s\"", separator, config_option_table[i].name);
        separator = ",";
    }
    buffer_append_char(out, ']');
}
