// Package manual prints the pages of the documentation in a terminal: paragraphs, lists
// and tables within its columns, blocks of code as they stand. It knows the Markdown of those
// pages, and a test holds it to all of them.
package manual
