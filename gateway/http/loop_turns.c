#include "gateway/http/loop_turns.h"

#include "config/base/mem.h"

struct loop_turns {
    struct loop *loop;
    struct turns *turns;
};

static void task_done(void *context)
{
    struct loop_turns_task *task = context;
    task->done(task);
}

static void task_work(void *context, struct turn *turn)
{
    struct loop_turns *turns = context;
    struct loop_turns_task *task = (struct loop_turns_task *)(void *)turn;
    task->work(task);
    loop_post(turns->loop, task_done, task);
}

enum status loop_turns_create(struct loop_turns **out, struct loop *loop, uint32_t waiting_max,
                              uint32_t owner_max)
{
    struct loop_turns *turns = mem_zalloc(1, sizeof *turns);
    if (turns == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the lanes of text work");
    turns->loop = loop;
    const struct turns_options options = {.work = task_work,
                                          .context = turns,
                                          .clock = clock_system(),
                                          .waiting_max = waiting_max,
                                          .owner_max = owner_max};
    enum status status = turns_create(&turns->turns, &options);
    if (status != STATUS_OK) {
        mem_free(turns);
        return status;
    }
    *out = turns;
    return STATUS_OK;
}

void loop_turns_destroy(struct loop_turns *turns)
{
    if (turns == NULL)
        return;
    turns_destroy(turns->turns);
    mem_free(turns);
}

enum status loop_turns_submit(struct loop_turns *turns, struct loop_turns_task *task)
{
    return turns_push(turns->turns, &task->turn);
}
