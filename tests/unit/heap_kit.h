/* heap_kit: bytes of the live heap, by the allocator that this build has.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(arenas).
 * Not here: judgement.
 */
#pragma once

#include <malloc.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEAP_KIT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HEAP_KIT_SANITIZED 1
#endif
#endif

#ifdef HEAP_KIT_SANITIZED
size_t __sanitizer_get_current_allocated_bytes(void); /* gcc ships no header for it */
#endif

static __attribute__((unused)) size_t heap_kit_bytes(void)
{
#ifdef HEAP_KIT_SANITIZED
    return __sanitizer_get_current_allocated_bytes(); /* mallinfo2 knows nothing here */
#else
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#endif
}
