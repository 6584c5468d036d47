#include "config/base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static mem_hook active_hook;
static void *active_context;

void mem_hook_set(mem_hook hook, void *context)
{
    active_hook = hook;
    active_context = context;
}

static int mem_refused(size_t bytes)
{
    return active_hook != NULL && active_hook(active_context, bytes) != 0;
}

void *mem_alloc(size_t bytes)
{
    return mem_refused(bytes) ? NULL : malloc(bytes != 0 ? bytes : 1);
}

void *mem_zalloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || mem_refused(bytes))
        return NULL;
    return calloc(1, bytes != 0 ? bytes : 1);
}

void *mem_realloc(void *old, size_t bytes)
{
    return mem_refused(bytes) ? NULL : realloc(old, bytes != 0 ? bytes : 1);
}

void *mem_alloc_aligned(size_t alignment, size_t bytes)
{
    void *memory = NULL;
    if (alignment < sizeof(void *)) /* the minimum of posix_memalign */
        alignment = sizeof(void *);
    if (mem_refused(bytes) || bytes > SIZE_MAX - alignment)
        return NULL;
    return posix_memalign(&memory, alignment, bytes != 0 ? bytes : 1) == 0 ? memory : NULL;
}

char *mem_strndup(const char *text, size_t bytes)
{
    char *copy = bytes < SIZE_MAX ? mem_alloc(bytes + 1) : NULL;
    if (copy == NULL)
        return NULL;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

char *mem_strdup(const char *text)
{
    return mem_strndup(text, strlen(text));
}

void mem_free(void *memory)
{
    free(memory);
}
