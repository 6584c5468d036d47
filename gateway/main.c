/* main: chooses the subcommand of banyan, and is the only file that reads the environment.
 *
 * Owns:     the process's exit code.
 * Thread:   the first.
 * Cost:     –
 * Not here: what a subcommand does.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "config/base/log.h"
#include "config/base/status.h"
#include "engine/bench/bench.h"
#include "kernels/kernels.h"
#ifdef BANYAN_CUDA
#include "kernels/cuda/cuda_device.h"
#endif
#ifdef BANYAN_GATEWAY
#include "config/config.h"
#include "config/config_effect.h"
#include "gateway/cli/cli.h"
#include "gateway/serve/admin_key.h"
#include "gateway/serve/backup.h"
#include "gateway/serve/serve.h"
#include "gateway/serve/serve_half.h"
#endif

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct command {
    const char *name;
    const char *help;
    int (*run)(int argc, const char *const *argv);
};

static int main_fail(const char *command)
{
    fprintf(stderr, "banyan %s: %s\n", command, status_note()->message);
    return EXIT_FAILED;
}

#ifdef BANYAN_GATEWAY
extern char **environ;

static bool main_wants_help(int argc, const char *const *argv)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    }
    return false;
}

/* Closes the descriptors that the parent process left open. Not before the options are read: the
 * option file may be one of them. */
static void main_close_inherited(void)
{
    (void)close_range(STDERR_FILENO + 1, ~0U, 0);
}

/* Refuses a flag that has no effect, and warns of other options that have none. */
static enum status main_check_effect(const struct config *config)
{
    char names[1024];
    TRY(config_effect_check(config, names, sizeof names));
    if (names[0] != '\0')
        LOG(LOG_WARN, "options_without_effect", LOG_TEXT("options", names));
    return STATUS_OK;
}

/* Loads the options of a role and calls `run`, or prints the help. Returns the exit code. */
static int
main_with_config(const char *command, enum config_role role, int argc, const char *const *argv,
                 enum status (*run)(const struct config *, const struct config_sources *))
{
    if (main_wants_help(argc, argv)) {
        struct buffer help;
        buffer_init(&help, 64 * 1024);
        config_help(role, &help);
        printf("usage: banyan %s [options]\n\n%s", command, help.bytes != NULL ? help.bytes : "");
        buffer_deinit(&help);
        return EXIT_OK;
    }
    const struct config *config = NULL;
    const struct config_sources sources = {role, argc, argv, (const char *const *)environ};
    if (config_load(&config, role, argc, argv, sources.environment) != STATUS_OK) {
        main_fail(command);
        return EXIT_USAGE;
    }
    main_close_inherited();
    enum log_level level = LOG_INFO;
    enum status status = log_level_parse(&level, config->log_level);
    log_open(STDERR_FILENO, level, command);
    if (status == STATUS_OK)
        status = main_check_effect(config);
    if (status == STATUS_OK)
        status = run(config, &sources);
    int code = status == STATUS_OK ? EXIT_OK : main_fail(command);
    config_release(config);
    return code;
}

static enum status main_edge(const struct config *config, const struct config_sources *sources)
{
    return serve_half_run_alone(config, sources, serve_half_run_edge);
}

static enum status main_engine(const struct config *config, const struct config_sources *sources)
{
    return serve_half_run_alone(config, sources, serve_half_run_engine);
}

static int command_serve(int argc, const char *const *argv)
{
    return main_with_config("serve", CONFIG_SERVE, argc, argv, serve_run);
}

static int command_edge(int argc, const char *const *argv)
{
    return main_with_config("edge", CONFIG_EDGE, argc, argv, main_edge);
}

static int command_engine(int argc, const char *const *argv)
{
    return main_with_config("engine", CONFIG_ENGINE, argc, argv, main_engine);
}

/* cli.h says what its exit codes mean. */
static int command_admin(int argc, const char *const *argv)
{
    struct winsize size = {0};
    bool is_terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    struct cli_options options = {.data_dir = getenv("BANYAN_DATA_DIR"),
                                  .admin_listen = getenv("BANYAN_ADMIN_LISTEN"),
                                  .out = stdout,
                                  .err = stderr,
                                  .columns = is_terminal ? size.ws_col : 0};
    return (int)cli_run(argc, argv, &options);
}

static int command_admin_key(int argc, const char *const *argv)
{
    if (main_wants_help(argc, argv)) {
        printf("usage: banyan admin-key [--data-dir D] [--config FILE] [options of banyan edge]\n\n"
               "Makes an admin key with all scopes and writes it to D/admin.key, for when every "
               "key is lost\nor a scope is missing. Stop the server that uses D first. The audit "
               "log records the new key.\n");
        return EXIT_OK;
    }
    return main_with_config("admin-key", CONFIG_EDGE, argc, argv, admin_key_run);
}

static int command_backup(int argc, const char *const *argv)
{
    if (main_wants_help(argc, argv)) {
        printf(
            "usage: banyan backup [--data-dir D] --to F [--with-secrets]\n\n"
            "Copies both databases of D, as they are at one moment, into a new folder F. A server "
            "may use D meanwhile.\n--with-secrets: also copies secrets, admin.key, tls and jwks. "
            "Without it, keep these elsewhere:\na server starts from F only with the secrets of "
            "D.\n");
        return EXIT_OK;
    }
    enum status status = backup_run(argc, argv, getenv("BANYAN_DATA_DIR"));
    if (status == STATUS_OK)
        return EXIT_OK;
    main_fail("backup");
    return status == STATUS_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

static int command_schema(int argc, const char *const *argv)
{
    bool is_markdown = argc == 1 && strcmp(argv[0], "--markdown") == 0;
    if (argc > 1 || (argc == 1 && !is_markdown)) {
        fprintf(stderr, "banyan schema: takes only the option --markdown\n");
        return EXIT_USAGE;
    }
    struct buffer text;
    buffer_init(&text, 1024 * 1024);
    if (is_markdown)
        config_markdown(&text);
    else
        config_schema(&text);
    fputs(text.bytes != NULL ? text.bytes : "", stdout);
    buffer_deinit(&text);
    return EXIT_OK;
}
#endif

static int command_bench(int argc, const char *const *argv)
{
    char *const *arguments = (char *const *)(uintptr_t)argv;
    return bench_run(argc, arguments, stdout) == STATUS_OK ? EXIT_OK : main_fail("bench");
}

static int command_version(int argc, const char *const *argv)
{
    if (argc > 0) {
        fprintf(stderr, "banyan version: takes no options, not '%s'\n", argv[0]);
        return EXIT_USAGE;
    }
    printf("banyan %s (%s)\n", BANYAN_VERSION, BANYAN_COMMIT);
    printf("kernels built:");
    for (const char *const *isa = kernels_built(); *isa != NULL; isa++)
        printf(" %s%s", *isa, kernels_can_run(*isa) ? "" : " (not on this machine)");
    const char *chosen = NULL;
    for (const char *const *isa = kernels_built(); *isa != NULL && chosen == NULL; isa++)
        chosen = kernels_can_run(*isa) ? *isa : NULL;
    printf("\nkernels chosen on this machine: %s\n", chosen);
#ifdef BANYAN_CUDA
    printf("CUDA devices: %d\n", cuda_device_count());
    for (int i = 0; i < cuda_device_count(); i++) {
        struct cuda_device device;
        if (cuda_device_get(i, &device) == STATUS_OK)
            printf("  %s, compute capability %d.%d, %zu MiB\n", device.name, device.major,
                   device.minor, device.memory_bytes >> 20);
    }
#endif
    return EXIT_OK;
}

static const struct command commands[] = {
#ifdef BANYAN_GATEWAY
    {"serve", "run the server: the edge and its engines", command_serve},
    {"edge", "run only the edge, for engines that are started apart", command_edge},
    {"engine", "run only the engine, on a Unix socket", command_engine},
    {"admin", "administer a running server: tenants, keys, limits, usage, audit", command_admin},
    {"admin-key", "make an admin key with all scopes in a data directory", command_admin_key},
    {"backup", "copy a data directory, also while a server uses it", command_backup},
    {"schema", "print the JSON schema of the option file (--markdown: a table)", command_schema},
#endif
    {"bench", "measure the engine, and compare it with what the machine allows", command_bench},
    {"version", "print version, commit, kernels built and chosen", command_version},
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void main_usage(FILE *out)
{
    fprintf(out, "usage: banyan COMMAND [options]     (banyan COMMAND --help)\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].help);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        main_usage(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        main_usage(stdout);
        return EXIT_OK;
    }
    if (strcmp(name, "--version") == 0)
        name = "version";
    log_open(STDERR_FILENO, LOG_INFO, "banyan");
    /* A write to a closed connection or past a file size limit must fail, and not end the process.
     */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    /* If the parent ignores SIGCHLD, so does this process after execve(), and then it neither
     * notices the end of a child nor can wait for it. */
    signal(SIGCHLD, SIG_DFL);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].run(argc - 2, (const char *const *)argv + 2);
    }
    fprintf(stderr, "banyan: no command '%s'\n", name);
    main_usage(stderr);
    return EXIT_USAGE;
}
