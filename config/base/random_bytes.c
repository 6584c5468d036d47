#include "config/base/random_bytes.h"

#include <errno.h>
#include <sys/random.h>

#include "config/base/status.h"

void random_bytes(void *out, size_t length)
{
    unsigned char *cursor = out;
    while (length > 0) {
        ssize_t got = getrandom(cursor, length, 0);
        if (got < 0 && errno == EINTR)
            continue;
        ASSERT(got > 0);
        cursor += got;
        length -= (size_t)got;
    }
}
