/* corpus: saved inputs of fuzz targets that a test can make again.
 *
 * Owns:     nothing.
 * Thread:   one.
 * Cost:     reads one file.
 * Not here: running them (tests/fuzz/replay).
 */
#pragma once

#include "config/base/slice.h"

/* Whether the file holds exactly these bytes. With BANYAN_WRITE_CORPUS in the environment it is
 * written first. */
bool corpus_holds(const char *path, struct slice bytes);
