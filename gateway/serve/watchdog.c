#include "gateway/serve/watchdog.h"

#include <stdio.h>
#include <string.h>

/* Between two looks at most this much time counts. */
enum { LOOK_MOST_US = 2 * WATCHDOG_LOOK_MS * 1000 };

void watchdog_begin(struct watchdog *watchdog, const struct pulse *pulse, int64_t now_us)
{
    *watchdog = (struct watchdog){.pulse = pulse, .looked_us = now_us};
    for (uint32_t place = 0; place < PULSE_PLACES; place++)
        watchdog->seen[place] = pulse_read(pulse, place);
}

int64_t watchdog_look(struct watchdog *watchdog, int64_t now_us, bool is_stopped)
{
    int64_t passed_us = now_us - watchdog->looked_us;
    passed_us = passed_us < LOOK_MOST_US ? passed_us : LOOK_MOST_US;
    watchdog->looked_us = now_us;
    int64_t longest_us = 0;
    bool is_begun = false;
    for (uint32_t place = 0; place < PULSE_PLACES; place++) {
        uint32_t beats = pulse_read(watchdog->pulse, place);
        bool is_silent = beats != 0 && beats == watchdog->seen[place];
        is_begun = is_begun || beats != 0;
        watchdog->seen[place] = beats;
        watchdog->silent_us[place] = is_silent ? watchdog->silent_us[place] + passed_us : 0;
        if (watchdog->silent_us[place] > longest_us)
            longest_us = watchdog->silent_us[place];
    }
    watchdog->stopped_us = !is_begun && is_stopped ? watchdog->stopped_us + passed_us : 0;
    return longest_us > watchdog->stopped_us ? longest_us : watchdog->stopped_us;
}

struct watchdog_process watchdog_process_look(pid_t pid)
{
    struct watchdog_process out = {false, false};
    char path[48];
    char line[256];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return out;
    while (fgets(line, sizeof line, file) != NULL) {
        out.is_stopped = out.is_stopped || strncmp(line, "State:\tT", 8) == 0;
        out.is_traced =
            out.is_traced || (strncmp(line, "TracerPid:\t", 11) == 0 && line[11] != '0');
    }
    fclose(file);
    return out;
}
