package layout

// RowKind says with what the rows of a space end.
type RowKind struct {
	Space string
	Lasts Lifetime
}

// Lifetime says what the rows of a space end with at the latest.
type Lifetime byte

const (
	OfStore      Lifetime = iota // with the store: they are no queue's
	OfGeneration                 // with that of their queue, which is the third element of their keys
	UntilDelete                  // with the delete of their queue
	BeyondQueue                  // neither: what they are about is
)

// RowKinds are all kinds of rows that queues have, and those that lead to them, in the order in which a check
// reads them: rows before those that refer to them.
var RowKinds = [...]RowKind{
	{SpaceState, BeyondQueue},
	{SpaceHigh, UntilDelete},
	{SpaceReady, OfGeneration},
	{SpaceKeyed, OfGeneration},
	{SpaceDelayed, OfGeneration},
	{SpaceLeased, OfGeneration},
	{SpaceKeyReady, OfGeneration},
	{SpaceKeyBegun, OfGeneration},
	{SpaceKeyHeld, OfGeneration},
	{SpaceKeyHead, OfGeneration},
	{SpaceKeyWaits, UntilDelete},
	{SpaceTokensOf, UntilDelete},
	{SpaceKeyFence, BeyondQueue},
	{SpaceSettings, UntilDelete},
	{SpaceTokens, UntilDelete},
	{SpaceFairKey, OfGeneration},
	{SpaceUnnamed, OfGeneration},
	{SpaceClass, OfGeneration},
	{SpaceWeight, OfGeneration},
	{SpaceMsgID, UntilDelete},
	{SpacePopID, UntilDelete},
	{SpacePopItem, UntilDelete},
	{SpaceAnswers, UntilDelete},
	{SpaceRepeated, UntilDelete},
	{SpaceRequest, BeyondQueue},
	{SpaceResult, BeyondQueue},
	{SpaceForward, OfGeneration},
	{SpaceUnique, OfGeneration},
	{SpaceChunk, OfGeneration},
	{SpaceTimer, OfStore},
	{SpaceCounter, OfGeneration},
	{SpaceSchedule, UntilDelete},
	{SpaceProgress, UntilDelete},
	{SpaceSchedules, UntilDelete},
	{SpaceDue, OfStore},
	{SpaceSource, UntilDelete},
	{SpacePosition, UntilDelete},
	{SpaceSourceRunner, UntilDelete},
	{SpaceLink, UntilDelete},
	{SpaceOut, UntilDelete},
	{SpaceKept, UntilDelete},
	{SpaceKeptPart, UntilDelete},
	{SpaceKeptSince, UntilDelete},
	{SpaceFinishes, UntilDelete},
	{SpaceFence, OfGeneration},
	{SpaceArrivals, BeyondQueue},
	{SpaceGarbage, BeyondQueue},
}
