/* mem: the process's allocator, with a hook so that tests can make the n-th allocation fail.
 *
 * Owns:     the choice of allocator; live bytes are the allocator's own business (mallinfo2).
 * Thread:   any; the hook is set before threads start.
 * Cost:     one predictable branch over malloc.
 * Not here: request memory (gateway/http/request), KV pages (kv_pool).
 */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Called before each allocation; a result other than zero makes that allocation fail. */
typedef int (*mem_hook)(void *context, size_t bytes);
void mem_hook_set(mem_hook hook, void *context);

/* All return NULL when there is no memory. mem_alloc leaves the bytes undefined. mem_zalloc zeroes
 * them and checks count × size for overflow. mem_alloc_aligned needs a power of two. mem_free frees
 * the memory of all of them. */
void *mem_alloc(size_t bytes) __attribute__((malloc));
void *mem_zalloc(size_t count, size_t size) __attribute__((malloc));
void *mem_realloc(void *old, size_t bytes);
void *mem_alloc_aligned(size_t alignment, size_t bytes) __attribute__((malloc));
char *mem_strdup(const char *text) __attribute__((malloc));
char *mem_strndup(const char *text, size_t bytes) __attribute__((malloc));
void mem_free(void *memory);

#ifdef __cplusplus
}
#endif
