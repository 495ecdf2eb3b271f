/* Before QEMU as LD_PRELOAD: where its processor's thread leaves the code of the guest, as it does when the guest halts, it
 * is held up now and then, as a busy computer would. QEMU's main thread finds the guest idle meanwhile, and has not heard
 * of its last instructions. The file that HELD_UP names says that it was. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static unsigned long jumps;

static void jump(const char *name, void *env, int value)
{
	void (*real)(void *, int) = (void (*)(void *, int))dlsym(RTLD_NEXT, name);

	if (++jumps % 16 == 0)
		nanosleep(&(struct timespec){.tv_nsec = 100000}, 0);
	if (jumps == 16)
		close(creat(getenv("HELD_UP"), 0600));
	real(env, value);
	__builtin_unreachable();
}

__attribute__((noreturn)) void siglongjmp(void *env, int value)
{
	jump("siglongjmp", env, value);
	__builtin_unreachable();
}

__attribute__((noreturn)) void __longjmp_chk(void *env, int value)
{
	jump("__longjmp_chk", env, value);
	__builtin_unreachable();
}
