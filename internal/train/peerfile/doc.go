// Package peerfile lets the ranks of a job read each other's files. A rank serves the files
// that it allows, and small notes that it keeps in memory. The others read byte ranges of
// both.
//
// # Protocol
//
// HTTP/1.1 over mutual TLS 1.3. Both sides prove the job's key (rank.Key.TLS) before any
// byte of a request is read.
//
//	GET /?path=PATH     Range: bytes=A-B     206 and the bytes
//	HEAD /?path=PATH                         200 and the size
//
// The answer for a file has its version, size and modification time, as ETag. A request with
// If-Match gets 412 if the file has another version.
//
// Other answers are 403 if the path is not served, 404 if there is no such file or note, and
// 500 if the file cannot be read. Their body is the reason.
//
// # Limits
//
// A request has at most 16 KiB and is sent within 5 s. A connection that has not proved the
// key is closed after that time; at most 64 of them are kept. A client reads at most 8 MiB
// by one request, within 30 s, and 4 KiB of a reason. Sizes that a server sends are used
// after they were compared with what the client asked for.
//
// Errors name the host's address and the path; errors.Is finds fs.ErrNotExist for a 404,
// fs.ErrPermission for a 403 and ErrChanged for a 412. The
// content of a file is not checked: the caller has its checksum. A Server and a Client may be
// used by many goroutines.
package peerfile
