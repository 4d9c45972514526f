/* A library whose one function takes the time that it is given. test_stacks.py calls it from Python. */
#include <time.h>

__attribute__((noinline)) int worked(long ns)
{
	struct timespec wait = {ns / 1000000000, ns % 1000000000};

	nanosleep(&wait, 0);
	return 0;
}
