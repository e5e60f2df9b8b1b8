/* cufft.cpp - as much of a libcufft as lib/engine/cuda/fft.c calls, in the emulated driver's library
 * (ZT_LIBCUFFT may name that): a transform is a launch of fft.cu's kernels in the plan's stream. It
 * counts them in zt_cufft_calls and plans in zt_cufft_plans; makes none while the stream is captured,
 * none of lines of 97 numbers, and has no memory for one of lines of 101; insists on a stream and
 * room to work in; and writes over the room, and over bins that it is given. */
#include "beside.h"
#include "fft.h"
#include "work.h"

#include <map>

enum { OK = 0, INVALID_PLAN = 1, ALLOC_FAILED = 2, INVALID_VALUE = 4, EXEC_FAILED = 6,
       SETUP_FAILED = 7, INVALID_SIZE = 8, UNALIGNED_DATA = 9, NO_WORKSPACE = 13 };
enum { R_32F = 0, R_64F = 1, C_32F = 4, C_64F = 5 };

namespace {
struct plan {
    emu_stream *stream;
    void *room;
    bool own, made;
    emu_fft_args args;
};
std::map<int, plan> plans;
int next_plan = 1;

plan *find(int number)
{
    const auto p = plans.find(number);
    return p == plans.end() ? nullptr : &p->second;
}

int run(const char *name, emu_fft_args *args, void *stream)
{
    void *function = kernel_named(name);
    return !function ? SETUP_FAILED : launch(function, 3, args, stream) ? OK : EXEC_FAILED;
}
} // namespace

API int zt_cufft_calls, zt_cufft_plans;
int zt_cufft_calls, zt_cufft_plans;

API int cufftCreate(int *number)
{
    *number = next_plan++;
    plans[*number] = plan{nullptr, nullptr, true, false, {}};
    return OK;
}
API int cufftDestroy(int number)
{
    const plan *p = find(number);
    if (!p) return INVALID_PLAN;
    zt_cufft_plans -= p->made;
    plans.erase(number);
    return OK;
}
API int cufftSetStream(int number, emu_stream *stream)
{
    plan *p = find(number);
    if (p) p->stream = stream;
    return p ? OK : INVALID_PLAN;
}
API int cufftSetAutoAllocation(int number, int allocates)
{
    plan *p = find(number);
    if (p) p->own = allocates != 0;
    return p ? OK : INVALID_PLAN;
}
API int cufftSetWorkArea(int number, void *room)
{
    plan *p = find(number);
    if (p) p->room = room;
    return p ? OK : INVALID_PLAN;
}

API int cufftXtMakePlanMany(int number, int rank, long long *n, long long *x_room, long long x_step,
                            long long x_line, int x_type, long long *y_room, long long y_step,
                            long long y_line, int y_type, long long lines, size_t *bytes, int type)
{
    plan *p = find(number);
    if (!p || !p->stream || p->stream->capturing || p->own || p->made) return INVALID_PLAN;
    const bool wide = type == C_64F, real_x = x_type <= R_64F, real_y = y_type <= R_64F;
    const int real = wide ? R_64F : R_32F, pairs = wide ? C_64F : C_32F;
    if (rank != 1 || *n < 1 || lines < 1 || (type != C_32F && type != C_64F)) return INVALID_SIZE;
    if (x_type != (real_x ? real : pairs) || y_type != (real_y ? real : pairs) || (real_x && real_y))
        return INVALID_VALUE;
    const long long half = *n / 2 + 1, x = real_y ? half : *n, y = real_x ? half : *n;
    const bool lined = x_step == 1 && y_step == 1 && x_line == x && y_line == y;
    const bool beside = x_step == lines && y_step == lines && x_line == 1 && y_line == 1;
    if ((!lined && !beside) || *x_room < x || *y_room < y) return INVALID_VALUE;
    if (*n == 97) return INVALID_SIZE;
    if (*n == 101) return ALLOC_FAILED;
    p->args.n = *n, p->args.lines = lines;
    p->args.x_step = x_step, p->args.x_line = x_line;
    p->args.y_step = y_step, p->args.y_line = y_line;
    p->args.wide = wide, p->args.halved_x = real_y, p->args.halved_y = real_x;
    p->made = true;
    zt_cufft_plans++;
    *bytes = static_cast<size_t>(lines * y) * (wide ? 16 : 8); /* pairs at most */
    return OK;
}

API int cufftXtExec(int number, void *x, void *y, int direction)
{
    plan *p = find(number);
    if (!p || !p->made) return INVALID_PLAN;
    if (!p->room) return NO_WORKSPACE;
    if (p->args.halved_x || p->args.halved_y) direction = p->args.halved_x ? 1 : -1;
    if (direction != 1 && direction != -1) return INVALID_VALUE;
    const uintptr_t pair = p->args.wide ? 16 : 8;
    if (reinterpret_cast<uintptr_t>(x) % pair || reinterpret_cast<uintptr_t>(y) % pair)
        return UNALIGNED_DATA;
    emu_fft_args a = p->args;
    a.x = reinterpret_cast<zt_cu_ptr>(x);
    a.y = reinterpret_cast<zt_cu_ptr>(y);
    a.room = reinterpret_cast<zt_cu_ptr>(p->room);
    a.direction = direction;
    zt_cufft_calls++;
    const int r = run("emu_fft", &a, p->stream);
    return r ? r : run("emu_fft_end", &a, p->stream);
}
