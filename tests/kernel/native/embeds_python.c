/* A program that contains a Python interpreter as a part of it, and lets that run a script: SCRIPT ARGUMENT... */
#include <Python.h>

int main(int count, char **arguments)
{
	return Py_BytesMain(count, arguments);
}
