// Package layout says where the bytes of a store lie: the key of each row, and the values of items.
//
// It guarantees:
//   - A row that this package writes reads as it was written, here and in every other process of the same format
//     version. A version reads what earlier ones wrote.
//   - Reading a row that is damaged, or that another program wrote, returns its content or an error. It never ends the
//     process, and never allocates by what a damaged row says.
//   - What the rows of a space end with is in [RowKinds], so that deletes and garbage need to know no feature.
//
// It knows bytes and values alone: no transaction, no clock and no configuration.
package layout
