/* banned: calls of the C library that overflow, race or lie become compile errors.
 *
 * Included by the compiler before every file of ours (-include); system headers come first.
 */
#pragma once

#ifndef __cplusplus
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC poison strcpy strcat sprintf vsprintf gets strtok strncpy strncat atoi atol atof
#pragma GCC poison gmtime localtime asctime ctime alloca rand srand
#endif
