#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "config/base/flag_word.h"
#include "config/base/limits.h"
#include "config/base/mem.h"
#include "config/config_option.h"

/* One block: the fields, the source of each option, then all texts, each with its NUL.
 *
 *     [struct snapshot][source of each option][model\0][listen\0][data_dir\0]… */
struct snapshot {
    struct config config; /* first, so that a pointer to it is a pointer to the snapshot */
    char rest[];          /* config_option_count bytes, then the texts */
};

static atomic_uint_fast64_t last_revision;

/* A text that was made of several. */
struct load_text {
    struct load_text *next;
    char bytes[];
};

/* The values by option while the sources are read; a later source overwrites an earlier one. */
struct load {
    enum config_role role;
    const char *file;                   /* how messages call the file */
    struct config_option_value *values; /* [config_option_count] */
    struct load_text *texts;            /* joined lists */
    char *file_bytes; /* the values that came from the file point into these two */
    json_t *file_json;
};

static size_t load_index(const struct config_option *option)
{
    return (size_t)(option - config_option_table);
}

/* Adds an element to a list: "a b". */
static enum status load_element(struct load *load, const struct config_option *option,
                                const char *name, struct slice list, struct slice element,
                                enum config_source source)
{
    struct config_option_value *value = &load->values[load_index(option)];
    if (element.length == 0 || memchr(element.bytes, ' ', element.length) != NULL)
        FAIL_PARAM(STATUS_INVALID, option->name, "%s is empty or holds a space", name);
    struct load_text *text = mem_alloc(sizeof *text + list.length + 1 + element.length);
    if (text == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the configuration");
    text->next = load->texts;
    load->texts = text;
    size_t length = list.length;
    if (length > 0) {
        memcpy(text->bytes, list.bytes, length);
        text->bytes[length++] = ' ';
    }
    memcpy(text->bytes + length, element.bytes, element.length);
    TRY(config_option_parse(option, name, (struct slice){text->bytes, length + element.length},
                            value));
    value->source = source;
    return STATUS_OK;
}

static enum status load_parse(struct load *load, const struct config_option *option,
                              const char *name, struct slice text, enum config_source source)
{
    struct config_option_value *value = &load->values[load_index(option)];
    TRY(config_option_parse(option, name, text, value));
    value->source = source;
    return STATUS_OK;
}

static const unsigned all_roles = ~0u;

static enum status load_unknown(const char *what, struct slice name, unsigned roles,
                                void (*spell)(const struct config_option *, char *))
{
    size_t distance_max = name.length / 2 > 2 ? name.length / 2 : 2;
    const struct config_option *nearest = config_option_nearest(name, roles, distance_max);
    if (nearest == NULL)
        nearest = config_option_nearest(name, all_roles, distance_max);
    if (nearest == NULL)
        FAIL(STATUS_INVALID, "%s: no such option; --help lists them", what);
    char right[CONFIG_OPTION_NAME_BYTES];
    spell(nearest, right);
    FAIL_PARAM(STATUS_INVALID, nearest->name, "%s: no such option; did you mean %s?", what, right);
}

static void spell_name(const struct config_option *option, char *out)
{
    snprintf(out, CONFIG_OPTION_NAME_BYTES, "%s", option->name);
}

/* --- flags --- */

/* Reads the flag at argv[*at]; moves *at to the flag's last argument. */
static enum status load_flag(struct load *load, int argc, const char *const *argv, int *at)
{
    const char *argument = argv[*at];
    char shown[48];
    snprintf(shown, sizeof shown, "%.40s", argument);
    if (strncmp(argument, "--", 2) != 0 && flag_word_is(argument))
        return load_unknown(shown, (struct slice){argument + 1, strcspn(argument + 1, "=")},
                            load->role, config_option_flag);
    if (strncmp(argument, "--", 2) != 0)
        FAIL(STATUS_INVALID, "%s: options begin with --; --help lists them", shown);
    const char *equals = strchr(argument, '=');
    struct slice name = slice_of(argument + 2);
    if (equals != NULL)
        name.length = (size_t)(equals - argument) - 2;
    const struct config_option *option = config_option_find(name);
    char flag[CONFIG_OPTION_NAME_BYTES] = "";
    if (option != NULL)
        config_option_flag(option, flag);
    if (!slice_is((struct slice){argument, name.length + 2}, flag)) /* not --KV_memory */
        return load_unknown(shown, name, load->role, config_option_flag);
    if ((option->roles & load->role) == 0) {
        char theirs[CONFIG_OPTION_NAME_BYTES];
        char ours[CONFIG_OPTION_NAME_BYTES];
        config_option_roles_text(option->roles, theirs);
        config_option_roles_text(load->role, ours);
        FAIL_PARAM(STATUS_INVALID, option->name, "%s is an option of %s, not of %s", flag, theirs,
                   ours);
    }
    struct slice value = SLICE("true");
    if (equals != NULL) {
        value = slice_of(equals + 1);
    } else if (option->kind != CONFIG_OPTION_BOOL) {
        if (*at + 1 >= argc)
            FAIL_PARAM(STATUS_INVALID, option->name, "%s needs a value", flag);
        *at += 1;
        value = slice_of(argv[*at]);
        if (flag_word_is(argv[*at]))
            FAIL_PARAM(STATUS_INVALID, option->name,
                       "%s needs a value; write one that begins with a dash as %s=%.40s", flag,
                       flag, argv[*at]);
    }
    const struct config_option_value *before = &load->values[load_index(option)];
    if (option->kind == CONFIG_OPTION_LIST && value.length > 0) /* an empty one alone: no element */
        return load_element(load, option, flag,
                            before->source == CONFIG_FLAG ? before->text : (struct slice){0}, value,
                            CONFIG_FLAG);
    return load_parse(load, option, flag, value, CONFIG_FLAG);
}

static enum status load_flags(struct load *load, int argc, const char *const *argv)
{
    for (int at = 0; at < argc; at++) {
        if (strcmp(argv[at], "--") != 0)
            TRY(load_flag(load, argc, argv, &at));
        else if (at + 1 < argc) /* only names may follow, and there are none */
            FAIL(STATUS_INVALID, "'%.40s' is not an option; this command takes options only",
                 argv[at + 1]);
    }
    return STATUS_OK;
}

/* --- environment --- */

/* Reads one variable. Variables that are options of another subcommand are ignored, because the
 * edge and the engine inherit one environment. Variables that are no option are ignored too,
 * because other programs keep settings under BANYAN_; but a name at distance 1 or 2 from an option
 * is refused as a likely slip. */
static enum status load_variable(struct load *load, const char *variable)
{
    static const struct slice prefix = {"BANYAN_", 7};
    const char *equals = strchr(variable, '=');
    if (equals == NULL || !slice_starts_with(slice_of(variable), prefix))
        return STATUS_OK;
    if ((size_t)(equals - variable) < prefix.length)
        return STATUS_OK;
    struct slice name = {variable + prefix.length, (size_t)(equals - variable) - prefix.length};
    const struct config_option *option = config_option_find(name);
    char source[CONFIG_OPTION_NAME_BYTES] = "";
    if (option != NULL)
        config_option_variable(option, source);
    if (!slice_is((struct slice){variable, (size_t)(equals - variable)}, source)) {
        char shown[48];
        snprintf(shown, sizeof shown, "%.*s",
                 equals - variable < 40 ? (int)(equals - variable) : 40, variable);
        if (name.length < 4 || config_option_nearest(name, all_roles, 2) == NULL)
            return STATUS_OK;
        return load_unknown(shown, name, all_roles, config_option_variable);
    }
    if ((option->roles & load->role) == 0)
        return STATUS_OK;
    return load_parse(load, option, source, slice_of(equals + 1), CONFIG_ENVIRONMENT);
}

static enum status load_environment(struct load *load, const char *const *environment)
{
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++)
        TRY(load_variable(load, environment[i]));
    return STATUS_OK;
}

/* --- file --- */

static enum status load_file_bytes(struct load *load, const char *path, size_t *length)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        FAIL_PARAM(STATUS_IO, "config", "the file of --config cannot be opened: %s",
                   strerrordesc_np(errno));
    enum status status = STATUS_OK;
    *length = 0;
    load->file_bytes = mem_alloc(LIMIT_CONFIG_FILE_BYTES + 1);
    if (load->file_bytes == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for the file of --config");
    for (;;) {
        ssize_t got =
            read(descriptor, load->file_bytes + *length, LIMIT_CONFIG_FILE_BYTES + 1 - *length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            FAIL_OUT(STATUS_IO, "the file of --config cannot be read: %s", strerrordesc_np(errno));
        if (got == 0)
            break;
        *length += (size_t)got;
        if (*length > LIMIT_CONFIG_FILE_BYTES)
            FAIL_OUT(STATUS_LIMIT, "the file of --config is longer than %d bytes",
                     LIMIT_CONFIG_FILE_BYTES);
    }
out:
    close(descriptor);
    return status;
}

static enum status load_array(struct load *load, const struct config_option *option,
                              const char *source, const json_t *json)
{
    struct slice list = {0};
    size_t at;
    const json_t *element;
    load->values[load_index(option)] = (struct config_option_value){.source = CONFIG_FILE};
    json_array_foreach(json, at, element)
    {
        if (!json_is_string(element))
            FAIL_PARAM(STATUS_INVALID, option->name, "%s must be a list of texts", source);
        const struct slice text = {json_string_value(element), json_string_length(element)};
        TRY(load_element(load, option, source, list, text, CONFIG_FILE));
        list = load->values[load_index(option)].text;
    }
    return STATUS_OK;
}

/* Reads a member of the file's object. Members are typed, but sizes may also be texts as on the
 * command line ("2G"). */
static enum status load_member(struct load *load, const char *name, const json_t *json)
{
    char source[80];
    snprintf(source, sizeof source, "\"%.40s\" in %s", name, load->file);
    const struct config_option *option = config_option_find(slice_of(name));
    if (option == NULL || strcmp(option->name, name) != 0)
        return load_unknown(source, slice_of(name), all_roles, spell_name);
    if (strcmp(name, "config") == 0)
        FAIL_PARAM(STATUS_INVALID, "config", "%s: a file cannot name another file", source);
    struct config_option_value value = {.source = CONFIG_FILE};
    if (option->kind == CONFIG_OPTION_LIST && json_is_array(json))
        return load_array(load, option, source, json);
    if (option->kind == CONFIG_OPTION_BYTES && json_is_string(json)) {
        struct slice text = {json_string_value(json), json_string_length(json)};
        TRY(config_option_parse(option, source, text, &value));
    } else if (option->kind == CONFIG_OPTION_TEXT && json_is_string(json)) {
        value.text = (struct slice){json_string_value(json), json_string_length(json)};
        TRY(config_option_check_text(option, source, value.text));
    } else if (option->kind == CONFIG_OPTION_BOOL && json_is_boolean(json)) {
        value.number = json_is_true(json) ? 1 : 0;
    } else if ((option->kind == CONFIG_OPTION_NUMBER || option->kind == CONFIG_OPTION_BYTES) &&
               json_is_integer(json)) {
        value.number = json_integer_value(json);
        TRY(config_option_check(option, source, value.number));
    } else {
        static const char *const wanted[] = {"",
                                             "a text",
                                             "a whole number",
                                             "a number of bytes or a text such as \"2G\"",
                                             "true or false",
                                             "a list of texts"};
        FAIL_PARAM(STATUS_INVALID, option->name, "%s must be %s", source, wanted[option->kind]);
    }
    value.source = CONFIG_FILE;
    load->values[load_index(option)] = value;
    return STATUS_OK;
}

static enum status load_parse_file(struct load *load, struct slice bytes)
{
    json_error_t error;
    load->file_json = json_loadb(bytes.bytes, bytes.length, JSON_REJECT_DUPLICATES, &error);
    /* Without memory jansson gives no text, or calls the value it was reading a wrong token. */
    if (load->file_json == NULL && error.text[0] == '\0')
        FAIL(STATUS_NO_MEMORY, "no memory for %s", load->file);
    if (load->file_json == NULL)
        FAIL_PARAM(STATUS_INVALID, "config", "%s, line %d, column %d: %s", load->file, error.line,
                   error.column, error.text);
    if (!json_is_object(load->file_json))
        FAIL_PARAM(STATUS_INVALID, "config", "%s must hold one JSON object", load->file);
    return STATUS_OK;
}

static enum status load_file(struct load *load, const char *path)
{
    size_t length = 0;
    TRY(load_file_bytes(load, path, &length));
    TRY(load_parse_file(load, (struct slice){load->file_bytes, length}));
    const char *name;
    json_t *json;
    json_object_foreach(load->file_json, name, json) TRY(load_member(load, name, json));
    return STATUS_OK;
}

/* --- snapshot --- */

static void load_defaults(struct load *load)
{
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_option_table[i];
        load->values[i] = (struct config_option_value){.text = slice_of(option->fallback_text),
                                                       .number = option->fallback};
    }
}

static bool load_is_text(const struct config_option *option)
{
    return option->kind == CONFIG_OPTION_TEXT || option->kind == CONFIG_OPTION_LIST;
}

static enum status load_snapshot(const struct load *load, const struct config **out)
{
    size_t text_bytes = 0;
    for (size_t i = 0; i < config_option_count; i++) {
        if (load_is_text(&config_option_table[i]))
            text_bytes += load->values[i].text.length + 1;
    }
    struct snapshot *snapshot = mem_zalloc(1, sizeof *snapshot + config_option_count + text_bytes);
    if (snapshot == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the configuration");
    char *text = snapshot->rest + config_option_count;
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_option_table[i];
        const struct config_option_value *value = &load->values[i];
        char *field = (char *)&snapshot->config + option->offset;
        snapshot->rest[i] = (char)value->source;
        if (load_is_text(option)) {
            if (value->text.length > 0)
                memcpy(text, value->text.bytes, value->text.length);
            memcpy(field, &(const char *){text}, sizeof(const char *));
            text += value->text.length + 1;
        } else if (option->kind == CONFIG_OPTION_BOOL) {
            memcpy(field, &(bool){value->number != 0}, sizeof(bool));
        } else if (option->kind != CONFIG_OPTION_GROUP) {
            memcpy(field, &value->number, sizeof value->number);
        }
    }
    snapshot->config.revision = atomic_fetch_add(&last_revision, 1) + 1;
    *out = &snapshot->config;
    return STATUS_OK;
}

/* Reads the sources from weakest to strongest. The value of --config is known only after the flags
 * and the environment, so those two are read twice. */
static enum status load_sources(struct load *load, int argc, const char *const *argv,
                                const char *const *environment)
{
    load_defaults(load);
    TRY(load_environment(load, environment));
    TRY(load_flags(load, argc, argv));
    struct slice config = load->values[load_index(config_option_find(SLICE("config")))].text;
    if (config.length == 0)
        return STATUS_OK;
    load_defaults(load);
    TRY(load_file(load, config.bytes));
    TRY(load_environment(load, environment));
    return load_flags(load, argc, argv);
}

static enum status load_open(struct load *load, enum config_role role, const char *file)
{
    *load = (struct load){.role = role, .file = file};
    load->values = mem_zalloc(config_option_count, sizeof *load->values);
    if (load->values == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the configuration");
    return STATUS_OK;
}

static void load_close(struct load *load)
{
    while (load->texts != NULL) {
        struct load_text *text = load->texts;
        load->texts = text->next;
        mem_free(text);
    }
    json_decref(load->file_json);
    mem_free(load->file_bytes);
    mem_free(load->values);
}

enum status config_load(const struct config **out, enum config_role role, int argc,
                        const char *const *argv, const char *const *environment)
{
    struct load load;
    *out = NULL;
    TRY(load_open(&load, role, "the file of --config"));
    enum status status = load_sources(&load, argc, argv, environment);
    if (status == STATUS_OK)
        status = load_snapshot(&load, out);
    load_close(&load);
    return status;
}

/* --- reload --- */

/* Fails with the names of the options that only a restart can change and that differ, as many as
 * the message has room for. */
static enum status reload_compare(const struct config *current, const struct config *next)
{
    char names[STATUS_MESSAGE_BYTES / 2] = "";
    size_t length = 0;
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_option_table[i];
        if (option->is_reloadable || config_option_is_same(option, current, next) ||
            length + strlen(option->name) + 3 > sizeof names)
            continue;
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                   length > 0 ? ", " : "", option->name);
    }
    if (length > 0)
        FAIL(STATUS_CONFLICT, "only a restart changes: %s", names);
    return STATUS_OK;
}

enum status config_reload(const struct config **out, const struct config *current,
                          const struct config_sources *sources)
{
    const struct config *next = NULL;
    *out = NULL;
    TRY(config_load(&next, sources->role, sources->argc, sources->argv, sources->environment));
    enum status status = reload_compare(current, next);
    if (status == STATUS_OK)
        *out = next;
    else
        config_release(next);
    return status;
}

void config_changes(const struct config *from, const struct config *to, struct buffer *out)
{
    const char *separator = "";
    buffer_append_char(out, '[');
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_option_table[i];
        if (config_option_is_same(option, from, to))
            continue;
        buffer_printf(out, "%s{\"option\":\"%s\",\"from\":", separator, option->name);
        config_option_render(option, from, out);
        buffer_append_text(out, ",\"to\":");
        config_option_render(option, to, out);
        buffer_printf(out, ",\"takes\":\"%s\"}", option->is_reloadable ? "reload" : "restart");
        separator = ",";
    }
    buffer_append_char(out, ']');
}

/* --- checking a file before it is used --- */

/* Appends an error for each wrong member and returns their number. */
static size_t validate_members(struct load *load, struct buffer *out)
{
    const char *name;
    json_t *json;
    size_t wrong = 0;
    json_object_foreach(load->file_json, name, json)
    {
        if (load_member(load, name, json) == STATUS_OK)
            continue;
        buffer_append_text(out, wrong++ > 0 ? ",{\"param\":" : "{\"param\":");
        buffer_append_json_string(out, slice_of(name));
        buffer_append_text(out, ",\"message\":");
        buffer_append_json_string(out, slice_of(status_note()->message));
        buffer_append_char(out, '}');
    }
    return wrong;
}

static void validate_overridden(const struct load *load, struct buffer *out)
{
    const char *name;
    json_t *json;
    const char *separator = "";
    json_object_foreach(load->file_json, name, json)
    {
        const struct config_option *option = config_option_find(slice_of(name));
        if (option == NULL || load->values[load_index(option)].source == CONFIG_FILE)
            continue;
        buffer_printf(out, "%s\"%s\"", separator, option->name);
        separator = ",";
    }
}

static enum status validate_text(struct load *load, const struct config *current,
                                 const struct config_sources *sources, struct slice text,
                                 struct buffer *out)
{
    struct buffer errors;
    const struct config *next = NULL;
    load_defaults(load);
    TRY(load_parse_file(load, text));
    buffer_init(&errors, 1024 * 1024);
    bool is_valid = validate_members(load, &errors) == 0;
    enum status status = errors.status;
    if (status == STATUS_OK)
        status = load_environment(load, sources->environment);
    if (status == STATUS_OK)
        status = load_flags(load, sources->argc, sources->argv);
    if (status == STATUS_OK)
        status = load_snapshot(load, &next);
    if (status == STATUS_OK) {
        buffer_printf(out, "\"valid\":%s,\"errors\":[", is_valid ? "true" : "false");
        buffer_append_slice(out, buffer_slice(&errors));
        buffer_append_text(out, "],\"changes\":");
        config_changes(current, is_valid ? next : current, out);
        buffer_append_text(out, ",\"overridden\":[");
        if (is_valid)
            validate_overridden(load, out);
        buffer_append_char(out, ']');
        status = out->status;
    }
    config_release(next);
    buffer_deinit(&errors);
    return status;
}

enum status config_validate(const struct config *current, const struct config_sources *sources,
                            struct slice text, struct buffer *out)
{
    struct load load;
    TRY(load_open(&load, sources->role, "the options"));
    enum status status = validate_text(&load, current, sources, text, out);
    load_close(&load);
    return status;
}

enum config_source config_source_of(const struct config *config, size_t index)
{
    const struct snapshot *snapshot = (const struct snapshot *)config;
    return (enum config_source)snapshot->rest[index];
}

void config_release(const struct config *config)
{
    mem_free((void *)(uintptr_t)config);
}
