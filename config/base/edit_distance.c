#include "config/base/edit_distance.h"

/* row[j] is the distance between the part of `wanted` read so far and the first j letters of
 * `name`. */
size_t edit_distance(const char *name, struct slice wanted, char (*fold)(char c))
{
    size_t row[EDIT_DISTANCE_NAME_BYTES];
    size_t name_length = strlen(name);
    ASSERT(name_length < EDIT_DISTANCE_NAME_BYTES);
    for (size_t j = 0; j <= name_length; j++)
        row[j] = j;
    for (size_t i = 0; i < wanted.length; i++) {
        size_t diagonal = row[0];
        char c = fold != NULL ? fold(wanted.bytes[i]) : wanted.bytes[i];
        row[0] = i + 1;
        for (size_t j = 0; j < name_length; j++) {
            size_t change = diagonal + (c != name[j] ? 1 : 0);
            diagonal = row[j + 1];
            size_t least = row[j] < row[j + 1] ? row[j] + 1 : row[j + 1] + 1;
            row[j + 1] = change < least ? change : least;
        }
    }
    return row[name_length];
}
