#include "gateway/http/query_string.h"

bool query_string_next(struct slice *rest, struct query_string_pair *out)
{
    if (rest->length == 0)
        return false;
    const char *ampersand = memchr(rest->bytes, '&', rest->length);
    size_t length = ampersand != NULL ? (size_t)(ampersand - rest->bytes) : rest->length;
    const char *equals = memchr(rest->bytes, '=', length);
    size_t name = equals != NULL ? (size_t)(equals - rest->bytes) : length;
    size_t value = equals != NULL ? name + 1 : name;
    out->has_equals = equals != NULL;
    out->name = (struct slice){rest->bytes, name};
    out->value = (struct slice){rest->bytes + value, length - value};
    size_t used = ampersand != NULL ? length + 1 : length;
    *rest = (struct slice){rest->bytes + used, rest->length - used};
    return true;
}
