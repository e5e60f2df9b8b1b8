/* states.h - a program's inputs and data turned into states: what is given once becomes what a step
 * leaves for the next. */
#ifndef ZT_PROG_STATES_H
#define ZT_PROG_STATES_H

#include "lib/prog/prog.h"

#ifdef __cplusplus
extern "C" {
#endif

/* zt_prog_like, in which every declaration v with state[v] is a state of the same name and type.
 * state NULL: none is. */
zt_prog *zt_prog_like_states(const zt_prog *program, const bool *state, int *map);

#ifdef __cplusplus
}
#endif
#endif
