// An extension module whose one function, calls.worked(ns), calls the library of worked.c without holding the GIL.
#include <Python.h>

extern "C" int worked(long ns);

namespace {

PyObject *call(PyObject *, PyObject *argument)
{
	long ns = PyLong_AsLong(argument);
	int result;

	if (ns == -1 && PyErr_Occurred())
		return nullptr;
	Py_BEGIN_ALLOW_THREADS
	result = worked(ns);
	Py_END_ALLOW_THREADS
	return PyLong_FromLong(result);
}

PyMethodDef functions[] = {{"worked", call, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "calls", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

} // namespace

PyMODINIT_FUNC PyInit_calls()
{
	return PyModule_Create(&definition);
}
