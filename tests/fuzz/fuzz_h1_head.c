/* fuzz_h1_head: bytes → h1_head_scan. A head that is found is the same when more bytes follow, and
 * is not found when its last byte is missing. After h1_head_strip_body it announces no body. */
#include <stdint.h>
#include <stdlib.h>

#include "config/base/mem.h"
#include "gateway/http/h1_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct h1_head head, again;
    if (!h1_head_scan((struct slice){(const char *)bytes, length}, &head))
        return 0;
    if (head.bytes == 0 || head.bytes > length)
        abort();
    /* In a block of its own size, so that a read beyond it is noticed. */
    char *copy = mem_alloc(head.bytes);
    memcpy(copy, bytes, head.bytes);
    if (!h1_head_scan((struct slice){copy, head.bytes}, &again))
        abort();
    if (again.bytes != head.bytes || h1_head_fault(&again, true) != h1_head_fault(&head, true))
        abort();
    if (h1_head_scan((struct slice){copy, head.bytes - 1}, &again))
        abort();
    /* After the body is stripped, the head has the same length and announces none. */
    h1_head_strip_body(copy, head.bytes);
    if (!h1_head_scan((struct slice){copy, head.bytes}, &again) || again.bytes != head.bytes ||
        again.content_lengths != 0 || again.transfer_encodings != 0 || again.hosts != head.hosts)
        abort();
    mem_free(copy);
    return 0;
}
