/* states.h - declarations of a program changed in a copy: inputs and data turned into states, where what is given once
 * becomes what a step leaves for the next; other types. */
#ifndef ZT_PROG_STATES_H
#define ZT_PROG_STATES_H

#include "lib/prog/prog.h"

#ifdef __cplusplus
extern "C" {
#endif

/* zt_prog_like, in which every declaration v with state[v] is a state of the same name and type.
 * state NULL: none is. */
zt_prog *zt_prog_like_states(const zt_prog *program, const bool *state, int *map);

/* zt_prog_like of the declarations v with wanted[v]; map[v] of the others is -1. */
zt_prog *zt_prog_like_some(const zt_prog *program, const bool *wanted, int *map);

/* zt_prog_like, in which every declaration v has the type types[v], with dimensions of `program`, and first[first_count],
 * values of different declarations, are declared before the others. types NULL: they do not change. NULL: ZT_EUSAGE for
 * a value that is no declaration, ZT_ESHAPE, ZT_ENOMEM. */
zt_prog *zt_prog_like_types(const zt_prog *program, const zt_type *types, const int *first, int first_count, int *map);

#ifdef __cplusplus
}
#endif
#endif
