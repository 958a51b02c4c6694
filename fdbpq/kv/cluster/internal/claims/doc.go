// Package claims finds out whether disks went back to an old state.
//
// A disk may go back: its machine is reverted, a volume is restored, or it is empty. Then the member's positions look
// right, and its part of the log votes, but both have forgotten entries that they acknowledged. So each member says with
// its heartbeats how far its disk is, and the disks of the others remember these claims. A member syncs claims, its own
// and the claims of others, before it announces them.
//
// A claim that is smaller than the remembered claim, or has another id, proves that the disk has gone back, until a
// new life begins. A candidate needs a majority of running members that no claim contradicts, and that began their
// life themselves or have a witness that runs. Claims have a count, because states of a store in which nothing is
// written differ in nothing else. Witnesses are for a state from a time in which another member was away already:
// none of the members that are left knows which entries followed. Nothing detects an old state from within about
// ten seconds of the moment in which a member goes away.
//
// All of it are values: no clock, no lock, no disk and no network.
package claims
