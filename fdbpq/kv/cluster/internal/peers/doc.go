// Package peers has what a member knows of the others: their heartbeats, who is silent, who is lost, and the furthest
// entry that anybody had.
//
// A member is lost when its machine refuses connections, or when two members that run have not heard it for their
// limit. The word of another member keeps a member that was halted, or cut off, from taking all others for lost. To
// take a member for lost costs at most a candidacy, never safety: only the log decides who may write.
//
// The limit is the silence of the options. It grows with the gaps that the other member's heartbeats had lately, because
// a machine that stalled once will do so again.
//
// A member that has ended stays known: if it had more entries than the log has now, the log has lost some. A mark never
// goes back within a generation.
package peers
