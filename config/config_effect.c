#include "config/config_effect.h"

#include <stdio.h>
#include <string.h>

#include "config/config_option.h"

/* The options of these groups that concern a foreign server, or every process of an engine. */
static bool is_of_both(const char *name)
{
    static const char *const names[] = {"model",        "model_name",     "socket",
                                        "upstream",     "hang_timeout_s", "engine_idle_timeout_s",
                                        "replay_wait_s"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static bool is_without(const struct config *config, const char *group, const char *name)
{
    const bool is_foreign = config->upstream[0] != '\0';
    if (is_of_both(name))
        return false;
    if (strcmp(group, "Foreign engine") == 0)
        return !is_foreign;
    return is_foreign && (strcmp(group, "Model") == 0 || strcmp(group, "Engine") == 0);
}

enum status config_effect_check(const struct config *config, char *without, size_t capacity)
{
    const char *group = "";
    size_t length = 0;
    without[0] = '\0';
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_option_table[i];
        const enum config_source source = config_source_of(config, i);
        if (option->kind == CONFIG_OPTION_GROUP)
            group = option->help;
        if (option->kind == CONFIG_OPTION_GROUP || source == CONFIG_DEFAULT ||
            !is_without(config, group, option->name))
            continue;
        if (source == CONFIG_FLAG) {
            char flag[CONFIG_OPTION_NAME_BYTES];
            config_option_flag(option, flag);
            FAIL_PARAM(STATUS_INVALID, option->name, "%s has no effect %s --upstream", flag,
                       config->upstream[0] != '\0' ? "beside" : "without");
        }
        if (length + strlen(option->name) + 3 <= capacity)
            length += (size_t)snprintf(without + length, capacity - length, "%s%s",
                                       length > 0 ? ", " : "", option->name);
    }
    return STATUS_OK;
}
