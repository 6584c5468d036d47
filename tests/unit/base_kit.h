/* base_kit: what unit tests share: cmocka with its prerequisites, a failing allocator, a folder.
 *
 * Owns:     nothing.
 * Thread:   one.
 * Not here: anything that knows a room above config/base.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/mem.h"
#include "config/base/status.h"

/* For mem_hook_set: the allocation that brings *context to zero fails, no other does. */
static inline int kit_fail_at(void *context, size_t bytes)
{
    int *left = context;
    (void)bytes;
    return --*left == 0;
}

/* A new folder; `path` has 64 bytes. */
static inline void kit_folder_make(char *path)
{
    snprintf(path, 64, "/tmp/banyan_test.XXXXXX");
    assert_non_null(mkdtemp(path));
}

/* Removes a folder of plain files. */
static inline void kit_folder_remove(const char *path)
{
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    assert_int_equal(rmdir(path), 0);
}
