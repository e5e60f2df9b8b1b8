/* stages_internal.h - private to stages.c, which divides a program, and stages_step.c, which runs it. */
#ifndef ZT_STAGES_INTERNAL_H
#define ZT_STAGES_INTERNAL_H

#include "lib/run/stages.h"

/* A value that goes from rank to rank. A dimension below 0 is symbol -1 - dim. */
typedef struct zt_port {
    int value; /* of the whole program */
    zt_type type;
} zt_port;

typedef struct zt_ports {
    zt_port *items;
    int count;
} zt_ports;

struct zt_stages {
    zt_ctx *ctx;
    zt_ranks *ranks;
    const zt_prog *program;
    int count, own;             /* stages; the one of this rank */
    int first, end;             /* its steps: first to end - 1 */
    size_t bytes;               /* of its data and states */
    bool fixed[ZT_MAX_SYMBOLS]; /* symbols that never change */
    zt_ports inputs;            /* of the whole program */
    zt_ports before, after;     /* values from the stage before it, and for the one behind it */
    /* room for a step */
    char *packed; /* all inputs, one after the other */
    size_t packed_bytes;
    const void **in;                         /* [inputs + before] */
    void **out;                              /* [after] */
    char **received;                         /* [before]: room for each, and */
    char **computed;                         /* [after] */
    size_t *received_bytes, *computed_bytes; /* how much there is */
};

/* The bytes of a value, with these numbers for the symbols. */
size_t zt_port_bytes(const zt_port *port, const int64_t *symbols);

#endif
