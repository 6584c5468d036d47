/* admin_openapi: config/openapi.json inside the program.
 *
 * Owns:     the file's bytes, put in by the assembler when the program was built.
 * Thread:   any.
 * Cost:     none.
 * Not here: what the file says (config/openapi.json), who may read it (admin).
 */
#pragma once

#include "config/base/slice.h"

struct slice admin_openapi_file(void);
