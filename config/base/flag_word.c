#include "config/base/flag_word.h"

#include <string.h>

static const char digits[] = "0123456789";

bool flag_word_is(const char *word)
{
    if (word[0] != '-' || word[1] == '\0')
        return false;
    size_t whole = strspn(word + 1, digits);
    const char *rest = word + 1 + whole;
    if (*rest == '.')
        rest += 1 + strspn(rest + 1, digits);
    return whole == 0 || *rest != '\0';
}
