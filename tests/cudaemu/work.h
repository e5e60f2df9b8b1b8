/* work.h - what streams hold: commands that nobody has waited for yet. */
#ifndef ZT_EMU_WORK_H
#define ZT_EMU_WORK_H

#include "emu.h"

#include <memory>
#include <vector>

struct emu_function {
    const emu_kernel *kernel;
    size_t dynamic; /* bytes of shared memory that a launch may ask for */
    size_t most;    /* with the kernel's own arrays: more than the plain limit once the attribute is set */
};

struct emu_event {
    double at;
    bool recorded, done;
};

struct emu_command {
    enum kind { LAUNCH, COPY, SET, EVENT, GRAPH } kind;
    emu_launch launch;
    std::shared_ptr<std::vector<unsigned char>> bytes; /* arguments; or what is copied */
    void *to;
    const void *from;
    size_t n;
    unsigned char value;
    emu_event *event;
    std::shared_ptr<std::vector<emu_command>> graph;
};

typedef std::vector<emu_command> emu_commands;

struct emu_stream {
    emu_commands queue, captured;
    bool capturing;
};

struct emu_graph {
    std::shared_ptr<emu_commands> commands;
};

void emu_log_launches(const char *file); /* may be NULL */
/* Runs what the stream holds; 0 or the first error, which the context keeps. */
int emu_drain(emu_stream *s);
void emu_add(emu_stream *s, const emu_command &c);

#endif
