// Package interop compares the readers of files with other libraries. It is a module of its
// own, so that the program does not depend on these libraries.
package interop
