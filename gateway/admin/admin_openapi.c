#include "gateway/admin/admin_openapi.h"

/* ADMIN_OPENAPI_PATH comes from CMakeLists.txt. */
__asm__(".section .rodata\n"
        "admin_openapi_first:\n"
        ".incbin \"" ADMIN_OPENAPI_PATH "\"\n"
        "admin_openapi_last:\n"
        ".byte 0\n"
        ".previous\n");
extern const char admin_openapi_first[] __attribute__((visibility("hidden")));
extern const char admin_openapi_last[] __attribute__((visibility("hidden")));

struct slice admin_openapi_file(void)
{
    return (struct slice){admin_openapi_first, (size_t)(admin_openapi_last - admin_openapi_first)};
}
