#include "kernels/cuda/cuda_nodes.h"

#include <ctype.h>
#include <dirent.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NODES_MAX = 32, PATH_BYTES = 256, LINE_BYTES = 256, NO_NUMBER = -1 };

struct nodes_found {
    char paths[NODES_MAX][PATH_BYTES];
    size_t count;
};

/* Returns the number in the name of the device's node, as the driver reports it. */
static long nodes_number(const struct cuda_nodes *nodes)
{
    static const char name[] = "Device Minor:";
    char path[PATH_BYTES];
    char line[LINE_BYTES];
    long number = NO_NUMBER;
    snprintf(path, sizeof path, "%s/gpus/%s/information", nodes->proc, nodes->bus);
    FILE *file = nodes->bus[0] != '\0' ? fopen(path, "re") : NULL;
    if (file == NULL)
        return NO_NUMBER;
    while (number == NO_NUMBER && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, name, sizeof name - 1) == 0)
            number = strtol(line + sizeof name - 1, NULL, 10);
    }
    fclose(file);
    return number;
}

/* Returns whether a path is a node of the driver that this device needs. Node paths begin with the
 * prefix; a number after it means one device. */
static bool nodes_wants(const struct cuda_nodes *nodes, const char *path, long number)
{
    const size_t length = strlen(nodes->prefix);
    char *end;
    if (strncmp(path, nodes->prefix, length) != 0)
        return false;
    if (number == NO_NUMBER || !isdigit((unsigned char)path[length]))
        return true;
    const long own = strtol(path + length, &end, 10);
    return *end != '\0' || own == number;
}

static void nodes_add(struct nodes_found *found, const char *path)
{
    for (size_t i = 0; i < found->count; i++) {
        if (strcmp(found->paths[i], path) == 0)
            return;
    }
    if (found->count < NODES_MAX)
        snprintf(found->paths[found->count++], PATH_BYTES, "%s", path);
}

static void nodes_find(const struct cuda_nodes *nodes, struct nodes_found *found)
{
    const long number = nodes_number(nodes);
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[PATH_BYTES];
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, path, sizeof path - 1);
        if (length <= 0)
            continue;
        path[length] = '\0';
        if (nodes_wants(nodes, path, number))
            nodes_add(found, path);
    }
    closedir(folder);
}

void cuda_nodes_each(const struct cuda_nodes *nodes,
                     void (*each)(void *context, const char *path, bool is_node), void *context)
{
    static const char pci[] = "/sys/bus/pci/devices";
    struct nodes_found found = {.count = 0};
    char path[PATH_BYTES];
    nodes_find(nodes, &found);
    for (size_t i = 0; i < found.count; i++)
        each(context, found.paths[i], true);
    each(context, nodes->proc, false);
    each(context, pci, false);
    if (nodes->bus[0] == '\0')
        return;
    snprintf(path, sizeof path, "%s/%s", pci, nodes->bus); /* a link to a folder elsewhere */
    each(context, path, false);
}
