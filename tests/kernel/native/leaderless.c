/* Ends its first thread at once. Another thread calls function argv[2] of library argv[1] once per byte of stdin. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static int (*function)(const void *, ...);

static void *serve(void *unused)
{
	char bytes[100];
	ssize_t n;

	(void)unused;
	while ((n = read(0, bytes, sizeof(bytes))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			function(bytes, 1L, 1, 1L, 1, (void *)0, 0L, (void *)0);
		if (write(1, ".", 1) != 1)
			break;
	}
	exit(0);
}

int main(int count, char **values)
{
	pthread_t thread;
	void *library = count == 3 ? dlopen(values[1], RTLD_NOW) : NULL;

	if (library)
		*(void **)&function = dlsym(library, values[2]);
	if (!function || pthread_create(&thread, NULL, serve, NULL))
		return 1;
	pthread_exit(NULL);
}
