/* tenant_prompt_load: published prompts at the start and the end of the directory.
 *
 * Owns:     nothing by itself.
 * Thread:   the thread of tenants_open or tenants_close, which alone has the directory.
 * Cost:     reads all rows of the tables prompts and prompt_grants.
 * Not here: finding and changing prompts (tenant_prompt).
 */
#pragma once

#include <stdint.h>

#include "config/base/status.h"

struct sqlite3;
struct tenants;

/* Loads the prompts, after the tenants, and makes the tenants' views. CORRUPT or LIMIT for rows out
 * of their bounds. */
enum status tenant_prompt_load(struct tenants *tenants, struct sqlite3 *connection);
void tenant_prompt_free_all(struct tenants *tenants);

/* Returns how many prompts are granted to the group. The caller holds `change` or `memory`. */
uint32_t tenant_prompt_count_group(const struct tenants *tenants, const char *group);
