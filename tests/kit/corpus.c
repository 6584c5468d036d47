#include "tests/kit/corpus.h"

#include <stdio.h>
#include <stdlib.h>

static void holds_write(const char *path, struct slice bytes)
{
    FILE *out = fopen(path, "wb");
    if (out == NULL || fwrite(bytes.bytes, 1, bytes.length, out) != bytes.length)
        perror(path);
    if (out != NULL)
        fclose(out);
}

bool corpus_holds(const char *path, struct slice bytes)
{
    if (getenv("BANYAN_WRITE_CORPUS") != NULL)
        holds_write(path, bytes);
    FILE *in = fopen(path, "rb");
    char *held = malloc(bytes.length + 1);
    bool is_same = in != NULL && held != NULL &&
                   fread(held, 1, bytes.length + 1, in) == bytes.length &&
                   memcmp(held, bytes.bytes, bytes.length) == 0;
    free(held);
    if (in != NULL)
        fclose(in);
    return is_same;
}
