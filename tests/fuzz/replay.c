/* replay: runs a fuzz target over saved inputs, as an ordinary test.
 *
 * Each argument is a file or a folder of files. An input is given as a heap block of exactly its
 * size, so that AddressSanitizer sees a read past it. No input at all is a failure.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

enum { REPLAY_INPUT_BYTES_MAX = 64 * 1024 * 1024, REPLAY_PATH_BYTES = 4096 };

static int replay_file(const char *path, const struct stat *info)
{
    if (info->st_size > REPLAY_INPUT_BYTES_MAX)
        return fprintf(stderr, "%s: too large\n", path), 1;
    FILE *in = fopen(path, "rb");
    if (in == NULL)
        return perror(path), 1;
    size_t length = (size_t)info->st_size;
    uint8_t *bytes = malloc(length != 0 ? length : 1);
    int failed = bytes == NULL || fread(bytes, 1, length, in) != length;
    fclose(in);
    if (failed)
        fprintf(stderr, "%s: cannot be read\n", path);
    else
        LLVMFuzzerTestOneInput(bytes, length);
    free(bytes);
    return failed;
}

/* Runs all inputs of a folder; returns their number, or -1. */
static int replay_folder(const char *path)
{
    int count = 0;
    DIR *folder = opendir(path);
    if (folder == NULL)
        return perror(path), -1;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char name[REPLAY_PATH_BYTES];
        struct stat info;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (stat(name, &info) != 0 || !S_ISREG(info.st_mode))
            continue;
        if (replay_file(name, &info) != 0) {
            count = -1;
            break;
        }
        count++;
    }
    closedir(folder);
    return count;
}

int main(int argc, char **argv)
{
    int total = 0;
    for (int i = 1; i < argc; i++) {
        struct stat info;
        int count = 1;
        if (stat(argv[i], &info) != 0)
            return perror(argv[i]), 1;
        if (S_ISDIR(info.st_mode))
            count = replay_folder(argv[i]);
        else if (replay_file(argv[i], &info) != 0)
            return 1;
        if (count < 0)
            return 1;
        total += count;
    }
    printf("%d inputs\n", total);
    return total > 0 ? 0 : 1;
}
