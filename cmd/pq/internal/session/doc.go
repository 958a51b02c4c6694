// Package session is one run of pq: where it reads and writes, its flags for all commands, its login, its
// connection, and how it ends. An error has one line, one exit code, and advice where there is some.
package session
