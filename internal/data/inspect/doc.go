// Package inspect reads a sample of files and guesses their format, delimiter and header, the
// types and meaning of columns, and the label. A person is meant to check the guesses before
// a model is trained on them.
//
// Half of the sample of one file is from its beginning and half from places throughout the
// file. The sample of several files is from all of them, or from 16. Of a compressed file
// only the beginning is read, and of a file with line breaks in quotes only the first 64 MiB.
package inspect
