/* h2o_compat_http2: libh2o's internals of HTTP/2 connections, for h2_sweep and h2_arrival only.
 *
 * Owns:     the include of a header that is installed but internal. It needs khash.h, which Debian
 *           ships with htslib (CMake finds it).
 * Thread:   –
 * Cost:     –
 * Not here: any behaviour.
 */
#pragma once

#include "gateway/http/h2o_compat.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <h2o/http2_internal.h>
#pragma GCC diagnostic pop
