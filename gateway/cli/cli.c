#include "gateway/cli/cli.h"

#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/edit_distance.h"
#include "config/base/flag_word.h"
#include "gateway/cli/cli_call.h"
#include "gateway/cli/cli_certificate.h"
#include "gateway/cli/cli_config.h"
#include "gateway/cli/cli_group.h"
#include "gateway/cli/cli_issuer.h"
#include "gateway/cli/cli_key.h"
#include "gateway/cli/cli_limits.h"
#include "gateway/cli/cli_look.h"
#include "gateway/cli/cli_price.h"
#include "gateway/cli/cli_prompt.h"
#include "gateway/cli/cli_request.h"
#include "gateway/cli/cli_tenant.h"
#include "gateway/cli/cli_text.h"
#include "gateway/cli/cli_usage.h"
#include "gateway/cli/cli_value.h"

enum {
    PATH_BYTES = 1024,
    LINE_BYTES = 2048,
    TIMEOUT_S_DEFAULT = 30,
    TIMEOUT_S_MAX = 3600,
    NEAR_LETTERS = 2,
};

static const struct flag {
    const char *name;
    const char *value; /* the help's word for its value; NULL = it takes none */
    const char *help;
} flags[] = {
#define CLI_FLAG(name, flag, value, help) {flag, value, help},
#include "gateway/cli/cli_flags.def"
#undef CLI_FLAG
};

#define WITH(name) (UINT64_C(1) << CLI_FLAG_##name)
_Static_assert(CLI_FLAG_COUNT <= 64, "each flag has one bit of a uint64_t");
/* The flags that every command takes. */
static const uint64_t COMMON = WITH(URL) | WITH(DATA_DIR) | WITH(KEY_FILE) | WITH(CA) | WITH(CERT) |
                               WITH(CERT_KEY) | WITH(TIMEOUT) | WITH(JSON);

static const struct cli_command commands[] = {
#define CLI_COMMAND(resource, verb, argument, flags, function, help)                               \
    {resource, verb, argument, flags, function, help},
#include "gateway/cli/cli_commands.def"
#undef CLI_COMMAND
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

/* The words of the command line that are no flags. */
struct words {
    const char *resource; /* NULL = not given */
    const char *verb;
    const char *argument;
    bool wants_help;
};

/* --- help --- */

static void help_flags(FILE *out, const char *title, uint64_t which)
{
    if (which == 0)
        return;
    fprintf(out, "\n%s\n", title);
    for (unsigned i = 0; i < CLI_FLAG_COUNT; i++) {
        char name[64];
        if ((which & (UINT64_C(1) << i)) == 0)
            continue;
        snprintf(name, sizeof name, "--%s %s", flags[i].name,
                 flags[i].value != NULL ? flags[i].value : "");
        fprintf(out, "  %-22s %s\n", name, flags[i].help);
    }
}

static void help_command(FILE *out, const struct cli_command *command)
{
    fprintf(out, "usage: banyan admin %s %s%s%s [flags]\n\n%s\n", command->resource, command->verb,
            command->argument[0] != '\0' ? " " : "", command->argument, command->help);
    help_flags(out, "flags:", command->flags);
    help_flags(out, "flags of every command:", COMMON);
}

/* All commands, or those of one resource. */
static void help_commands(FILE *out, const char *resource)
{
    fprintf(out, "usage: banyan admin [flags] %s VERB [argument] [flags]\n\n",
            resource != NULL ? resource : "RESOURCE");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        const struct cli_command *command = &commands[i];
        char name[64];
        if (resource != NULL && strcmp(resource, command->resource) != 0)
            continue;
        snprintf(name, sizeof name, "%s %s %s", command->resource, command->verb,
                 command->argument);
        fprintf(out, "  %-24s %s\n", name, command->help);
    }
    help_flags(out, "flags of every command (more: banyan admin RESOURCE VERB --help):", COMMON);
    fprintf(out,
            "\nPut names that begin with a dash after --; write such values as --flag=-value.\n"
            "\nexit codes: %d done; %d refused by the server; %d wrong words or files, nothing "
            "was sent;\n            %d no usable answer (a change may or may not have happened)\n",
            CLI_DONE, CLI_REFUSED, CLI_USAGE, CLI_UNREACHED);
}

/* --- names --- */

static bool resource_is_known(const char *resource)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].resource, resource) == 0)
            return true;
    }
    return false;
}

static const struct cli_command *command_find(const char *resource, const char *verb)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].resource, resource) == 0 && strcmp(commands[i].verb, verb) == 0)
            return &commands[i];
    }
    return NULL;
}

struct near {
    const char *name; /* the nearest name so far; NULL = none is near enough */
    size_t distance;
};

static void near_try(struct near *near, const char *name, const char *wanted)
{
    size_t distance = edit_distance(name, slice_of(wanted), NULL);
    if (near->name == NULL ? distance <= NEAR_LETTERS : distance < near->distance)
        *near = (struct near){name, distance};
}

/* Fails with "…; did you mean 'tenant'?", or with "…; see --help". */
static enum status near_fail(const struct near *near, const char *what, const char *wanted)
{
    if (near->name != NULL)
        FAIL(STATUS_INVALID, "%s '%.64s'; did you mean '%s'?", what, wanted, near->name);
    FAIL(STATUS_INVALID, "%s '%.64s'; see --help", what, wanted);
}

static enum status find_command(const struct words *words, const struct cli_command **out)
{
    struct near near = {0};
    for (size_t i = 0; i < COMMAND_COUNT && !resource_is_known(words->resource); i++)
        near_try(&near, commands[i].resource, words->resource);
    if (!resource_is_known(words->resource))
        return near_fail(&near, "there is no resource", words->resource);
    if (words->verb == NULL)
        FAIL(STATUS_INVALID, "a verb is missing; see banyan admin %s --help", words->resource);
    *out = command_find(words->resource, words->verb);
    if (*out != NULL)
        return STATUS_OK;
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].resource, words->resource) == 0)
            near_try(&near, commands[i].verb, words->verb);
    }
    return near_fail(&near, "this resource has no verb", words->verb);
}

/* --- words --- */

static enum status parse_flag_find(const char *text, size_t length, unsigned *out)
{
    struct near near = {0};
    char wanted[EDIT_DISTANCE_NAME_BYTES];
    snprintf(wanted, sizeof wanted, "%.*s", (int)length, text);
    for (unsigned i = 0; i < CLI_FLAG_COUNT; i++) {
        if (strcmp(flags[i].name, wanted) == 0) {
            *out = i;
            return STATUS_OK;
        }
        near_try(&near, flags[i].name, wanted);
    }
    return near_fail(&near, "there is no flag", wanted);
}

/* Fails for a word with one dash, such as "-dry-run". */
static enum status parse_dash(const char *word)
{
    struct near near = {0};
    char wanted[EDIT_DISTANCE_NAME_BYTES];
    snprintf(wanted, sizeof wanted, "%.*s", (int)strcspn(word + 1, "="), word + 1);
    for (unsigned i = 0; i < CLI_FLAG_COUNT; i++)
        near_try(&near, flags[i].name, wanted);
    if (near.name != NULL)
        FAIL(STATUS_INVALID, "there is no flag '%.64s'; did you mean '--%s'?", word, near.name);
    FAIL(STATUS_INVALID,
         "there is no flag '%.64s'; see --help. Put names that begin with a dash after --", word);
}

/* Reads the flag at argv[*at], "--name value" or "--name=value". */
static enum status parse_flag(struct cli_call *call, int argc, const char *const *argv, int *at)
{
    const char *text = argv[*at] + 2;
    size_t length = strcspn(text, "=");
    unsigned flag = 0;
    TRY(parse_flag_find(text, length, &flag));
    const char *value = text[length] == '=' ? text + length + 1 : NULL;
    if (flags[flag].value == NULL) {
        if (value != NULL)
            FAIL(STATUS_INVALID, "--%s takes no value", flags[flag].name);
        call->values[flag] = "";
        return STATUS_OK;
    }
    if (value == NULL) {
        if (*at + 1 >= argc)
            FAIL(STATUS_INVALID, "--%s needs a value: %s", flags[flag].name, flags[flag].value);
        value = argv[++*at];
        if (flag_word_is(value))
            FAIL(STATUS_INVALID,
                 "--%s needs a value: %s; write one that begins with a dash as --%s=%.64s",
                 flags[flag].name, flags[flag].value, flags[flag].name, value);
    }
    if (flag == CLI_FLAG_META) {
        if (call->metadata_count == CLI_METADATA_MAX)
            FAIL(STATUS_OUT_OF_RANGE, "--meta may be given at most %d times", CLI_METADATA_MAX);
        call->metadata[call->metadata_count++] = value;
    }
    call->values[flag] = value;
    return STATUS_OK;
}

static enum status parse_words(struct cli_call *call, struct words *words, int argc,
                               const char *const *argv)
{
    bool has_ended = false; /* "--" ends the flags: all words after it are names */
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        bool is_flag = !has_ended && flag_word_is(word);
        if (is_flag && strcmp(word, "--") == 0)
            has_ended = true;
        else if (is_flag && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0))
            words->wants_help = true;
        else if (is_flag && strncmp(word, "--", 2) != 0)
            TRY(parse_dash(word));
        else if (is_flag)
            TRY(parse_flag(call, argc, argv, &i));
        else if (words->resource == NULL)
            words->resource = word;
        else if (words->verb == NULL)
            words->verb = word;
        else if (words->argument == NULL)
            words->argument = word;
        else
            FAIL(STATUS_INVALID, "'%.64s' is one word too many", word);
    }
    return STATUS_OK;
}

static enum status check_words(struct cli_call *call, const struct words *words)
{
    const struct cli_command *command = call->command;
    bool takes_argument = command->argument[0] != '\0';
    if (takes_argument && words->argument == NULL)
        FAIL(STATUS_INVALID, "%s is missing: banyan admin %s %s %s", command->argument,
             command->resource, command->verb, command->argument);
    if (!takes_argument && words->argument != NULL)
        FAIL(STATUS_INVALID, "'%.64s' is one word too many", words->argument);
    if (takes_argument && words->argument[0] == '\0')
        FAIL(STATUS_INVALID, "%s must not be empty", command->argument);
    for (unsigned i = 0; i < CLI_FLAG_COUNT; i++) {
        if (call->values[i] != NULL && ((command->flags | COMMON) & (UINT64_C(1) << i)) == 0)
            FAIL(STATUS_INVALID, "'%s %s' does not take --%s", command->resource, command->verb,
                 flags[i].name);
    }
    int64_t revision = 0;
    if (call->values[CLI_FLAG_IF_REVISION] != NULL)
        TRY(cli_value_number("--if-revision", call->values[CLI_FLAG_IF_REVISION], 1, INT64_MAX,
                             &revision));
    call->argument = words->argument;
    return STATUS_OK;
}

/* --- run --- */

static enum status run_path(char out[PATH_BYTES], const char *folder, const char *name)
{
    int length = snprintf(out, PATH_BYTES, "%s/%s", folder, name);
    if (length < 0 || length >= PATH_BYTES)
        FAIL(STATUS_LIMIT, "the data directory's path is too long");
    return STATUS_OK;
}

/* Whether a folder's owner is this user, root, or (for root) the edge's user of a server. */
static bool run_is_owner(uid_t owner)
{
    const struct passwd *edge = geteuid() == 0 ? getpwnam("banyan-edge") : NULL;
    return owner == geteuid() || owner == 0 || (edge != NULL && owner == edge->pw_uid);
}

/* The folder's tls/ca.crt decides which server gets the admin key. A folder that the user or the
 * environment named is trusted; "banyan-data" in the current directory only when no other user can
 * have put files there. */
static enum status run_check_folder(const char *folder, bool is_named)
{
    struct stat about;
    if (is_named || lstat(folder, &about) != 0)
        return STATUS_OK;
    if (!S_ISDIR(about.st_mode) || !run_is_owner(about.st_uid) ||
        (about.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        FAIL(STATUS_FORBIDDEN,
             "other users can write to the folder %s here: name it with --data-dir if you trust "
             "its certificates, or give --ca",
             folder);
    return STATUS_OK;
}

/* Opens the client. Files and the address that were not given follow from the data directory and
 * the environment. */
static enum status run_open(struct cli_call *call)
{
    const char *const *values = call->values;
    const struct cli_options *options = call->options;
    const char *folder = values[CLI_FLAG_DATA_DIR] != NULL ? values[CLI_FLAG_DATA_DIR]
                         : options->data_dir != NULL       ? options->data_dir
                                                           : "banyan-data";
    char url[PATH_BYTES];
    char key_file[PATH_BYTES];
    char ca_file[PATH_BYTES];
    int64_t timeout_s = TIMEOUT_S_DEFAULT;
    TRY(run_path(key_file, folder, "admin.key"));
    TRY(run_path(ca_file, folder, "tls/ca.crt"));
    snprintf(url, sizeof url, "https://%s",
             options->admin_listen != NULL ? options->admin_listen : "127.0.0.1:9443");
    if (values[CLI_FLAG_TIMEOUT] != NULL)
        TRY(cli_value_number("--timeout", values[CLI_FLAG_TIMEOUT], 1, TIMEOUT_S_MAX, &timeout_s));
    if (values[CLI_FLAG_CERT_KEY] != NULL && values[CLI_FLAG_CERT] == NULL)
        FAIL(STATUS_INVALID, "--cert-key needs --cert, whose private key it is");
    const char *own_ca = access(ca_file, R_OK) == 0 ? ca_file : NULL;
    bool is_named = values[CLI_FLAG_DATA_DIR] != NULL || options->data_dir != NULL;
    if (own_ca != NULL && values[CLI_FLAG_CA] == NULL)
        TRY(run_check_folder(folder, is_named));
    struct cli_api_options api = {
        .url = values[CLI_FLAG_URL] != NULL ? values[CLI_FLAG_URL] : url,
        .ca_file = values[CLI_FLAG_CA] != NULL ? values[CLI_FLAG_CA] : own_ca,
        .cert_file = values[CLI_FLAG_CERT],
        .cert_key_file =
            values[CLI_FLAG_CERT_KEY] != NULL ? values[CLI_FLAG_CERT_KEY] : values[CLI_FLAG_CERT],
        .key_file = values[CLI_FLAG_KEY_FILE] != NULL ? values[CLI_FLAG_KEY_FILE]
                    : values[CLI_FLAG_CERT] != NULL   ? NULL
                                                      : key_file,
        .timeout_ms = (uint32_t)timeout_s * 1000,
        .is_dry_run = values[CLI_FLAG_DRY_RUN] != NULL,
        .warnings = options->err};
    return cli_api_open(&call->api, &api);
}

/* Prints the failure. The note may quote the server, so each of its lines is made safe. */
static void run_tell(const struct cli_call *call)
{
    const char *at = status_note()->message;
    struct buffer line;
    buffer_init(&line, LINE_BYTES);
    while (*at != '\0') {
        size_t length = strcspn(at, "\n");
        cli_text_append(&line, (struct slice){at, length});
        buffer_append_char(&line, '\n');
        at += length + (at[length] == '\n' ? 1 : 0);
    }
    if (call->command != NULL)
        fprintf(call->options->err, "banyan admin %s %s: %s", call->command->resource,
                call->command->verb, line.length > 0 ? line.bytes : "failed\n");
    else
        fprintf(call->options->err, "banyan admin: %s", line.length > 0 ? line.bytes : "failed\n");
    buffer_deinit(&line);
}

static enum cli_exit run_exit(const struct cli_call *call, enum status status)
{
    if (status == STATUS_OK)
        return CLI_DONE;
    run_tell(call);
    if (call->api == NULL)
        return CLI_USAGE;
    if (cli_api_is_refused(call->api) || status == STATUS_NOT_FOUND)
        return CLI_REFUSED;
    if (status == STATUS_INVALID || status == STATUS_OUT_OF_RANGE)
        return CLI_USAGE;
    if (status == STATUS_UNAVAILABLE || status == STATUS_FORBIDDEN)
        fprintf(call->options->err,
                "  give the address of the config API with --url, its certificate with --ca\n");
    return CLI_UNREACHED;
}

static enum cli_exit run_command(struct cli_call *call, const struct words *words)
{
    enum status status = find_command(words, &call->command);
    if (status == STATUS_OK && words->wants_help) {
        help_command(call->options->out, call->command);
        return CLI_DONE;
    }
    if (status == STATUS_OK)
        status = check_words(call, words);
    if (status == STATUS_OK)
        status = run_open(call);
    if (status == STATUS_OK)
        status = call->command->run(call);
    if (status == STATUS_OK && call->values[CLI_FLAG_DRY_RUN] != NULL)
        fprintf(call->options->err, "dry run: nothing was changed\n");
    enum cli_exit exit_code = run_exit(call, status);
    cli_api_close(call->api);
    return exit_code;
}

enum cli_exit cli_run(int argc, const char *const *argv, const struct cli_options *options)
{
    struct cli_call call = {.options = options};
    struct words words = {0};
    if (parse_words(&call, &words, argc, argv) != STATUS_OK)
        return run_exit(&call, STATUS_INVALID);
    bool is_whole = words.resource != NULL && words.verb != NULL;
    if (words.wants_help && !is_whole) {
        bool is_known = words.resource != NULL && resource_is_known(words.resource);
        help_commands(options->out, is_known ? words.resource : NULL);
        return CLI_DONE;
    }
    if (words.resource == NULL) {
        help_commands(options->err, NULL);
        return CLI_USAGE;
    }
    return run_command(&call, &words);
}
