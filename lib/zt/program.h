/* zt/program.h - programs: lists of ops, as objects and as text.
 *
 *   prog/prog.h         built, printed, parsed, checked, bound
 *   prog/states.h       inputs and data turned into states
 *   run/pass.h          passes: programs made into others that give the same bits with less work
 *   run/plan_file.h     plan files: a program with its engines and memory offsets, as text
 *   run/interpreter.h   a program run one op at a time, every value kept
 *   run/bind_inputs.h   the numbers, inputs and data that a program needs to run once
 *   run/cost.h          what its steps cost, and the least time they can take
 *   run/diff.h          two runs compared op by op
 */
#ifndef ZT_PUBLIC_PROGRAM_H
#define ZT_PUBLIC_PROGRAM_H

#include "lib/prog/prog.h"
#include "lib/prog/states.h"
#include "lib/run/pass.h"
#include "lib/run/plan_file.h"
#include "lib/run/interpreter.h"
#include "lib/run/bind_inputs.h"
#include "lib/run/cost.h"
#include "lib/run/diff.h"

#endif
