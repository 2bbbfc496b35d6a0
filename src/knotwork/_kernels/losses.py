"""Losses of batches and their gradients in one pass on the CPU; `Objective.losses` of the engine defines them."""

import numpy as np

from knotwork._loops import compiled


@compiled(nogil=False)
def take_batch(order, place, n_train, alive, target, weights, shift, scale, units, rows, counts, active, goals, shares):
    """Fill what the next step needs: the rows of the batch from a place of the order on, and what belongs to them.

    `rows`, `goals` (targets in their units) and `shares` (weights; 0 for padding) are of shape (M, B), `counts` (rows
    that are not padding) and `active` of shape (M,). `weights` may be empty: all rows then have a weight of one.
    """
    n_rows, last = rows.shape[1], order.shape[1] - 1
    for m in range(rows.shape[0]):
        counts[m] = min(max(n_train[m] - place, 0), n_rows)
        active[m] = alive[m] and counts[m] > 0
        for i in range(n_rows):
            row = order[m, min(place + i, last)]
            rows[m, i] = row
            goals[m, i] = (0.5 * target[row] - 0.5 * shift[m]) / (0.5 * scale[m])  # the difference may overflow
            weight = weights[row] * units[m] if len(weights) else np.float32(1.0)
            shares[m, i] = weight if i < counts[m] else np.float32(0.0)


@compiled(nogil=False)
def squared_loss(outputs, goals, shares, counts, smoothing, totals, slopes):
    """Add the squared errors, times their shares, to the totals; fill the slopes of each member's mean."""
    for m in range(outputs.shape[0]):
        per_row = np.float32(1.0) / np.float32(max(counts[m], 1))
        for i in range(outputs.shape[1]):
            error = outputs[m, i, 0] - goals[m, i]
            totals[m] += error * error * shares[m, i]
            slopes[m, i, 0] = np.float32(2.0) * error * shares[m, i] * per_row


@compiled()
def log_loss(outputs, goals, shares, counts, smoothing, totals, slopes):
    """Add the cross-entropies of classes, times their shares, to the totals; fill the slopes of each member's mean.

    With label smoothing s and C classes, the class of a row has the probability 1 - s + s / C, each other one s / C.
    """
    n_classes = outputs.shape[2]
    rest = np.float32(smoothing / n_classes)
    for m in range(outputs.shape[0]):
        per_row = np.float32(1.0) / np.float32(max(counts[m], 1))
        for i in range(outputs.shape[1]):
            largest, own, total = outputs[m, i, 0], int(goals[m, i]), np.float32(0.0)
            for c in range(1, n_classes):
                largest = max(largest, outputs[m, i, c])
            for c in range(n_classes):
                slopes[m, i, c] = np.exp(outputs[m, i, c] - largest)
                total += slopes[m, i, c]
            log_total, factor = np.log(total), shares[m, i] * per_row
            for c in range(n_classes):
                share = rest + (np.float32(1.0 - smoothing) if c == own else np.float32(0.0))
                totals[m] += share * (log_total - (outputs[m, i, c] - largest)) * shares[m, i]
                slopes[m, i, c] = (slopes[m, i, c] / total - share) * factor
