//! The skeletons: how each digit is written in a box of 1×1, y downwards.

/// `xxyy` in hundredths: 6612 is the point (0.66, 0.12).
pub(super) type Point = u16;
/// The pen follows a smooth curve through the points; a point given twice is a sharp corner.
pub(super) type Stroke = &'static [Point];
/// One way to write a digit.
pub(super) type Style = &'static [Stroke];

/// The ways to write each digit, 0 to 9.
pub(super) const DIGITS: [&[Style]; 10] = [ZERO, ONE, TWO, THREE, FOUR, FIVE, SIX, SEVEN, EIGHT, NINE];

const ZERO: &[Style] = &[
    // An oval, closed where it began.
    &[&[5402, 3607, 2330, 2060, 3290, 5299, 7088, 8060, 7728, 6608, 5002]],
    // A narrow one that leans and runs over its start.
    &[&[6612, 5402, 3816, 2846, 2778, 4098, 5692, 6964, 7330, 6408, 4606, 3814]],
    // A round one begun at the side.
    &[&[2426, 1755, 2787, 5098, 7586, 8452, 7418, 5004, 3014, 2036]],
];

const ONE: &[Style] = &[
    // A bare stroke.
    &[&[5100, 5035, 5068, 4999]],
    // A flag.
    &[&[3322, 4412, 5300, 5300, 5335, 5270, 5299]],
    // A flag and a foot.
    &[&[3220, 4411, 5300, 5300, 5350, 5398], &[3099, 5298, 7698]],
];

const TWO: &[Style] = &[
    // A corner at the foot.
    &[&[2222, 3406, 5500, 7310, 7530, 6155, 4077, 2097, 2097, 5096, 8297]],
    // A loop at the foot.
    &[&[2420, 4004, 6203, 7320, 6646, 4872, 2892, 1595, 1584, 3079, 5289, 7096, 8688]],
    // A swan: long neck, waved foot.
    &[&[2030, 2610, 4800, 6808, 7028, 5456, 3282, 1896, 1896, 3888, 5897, 8092]],
];

const THREE: &[Style] = &[
    // Two bows that meet at a point.
    &[&[2412, 4500, 6908, 7327, 6042, 4247, 4247, 6652, 7970, 7092, 4699, 2090]],
    // A flat top.
    &[&[2204, 4803, 7503, 7503, 6022, 4640, 4640, 7047, 7968, 7091, 4599, 2090]],
    // A small loop at the waist.
    &[&[2216, 3602, 6002, 7018, 6038, 4448, 3646, 4442, 6650, 7868, 6892, 4299, 1886]],
];

const FOUR: &[Style] = &[
    // Open, with a corner.
    &[&[2702, 2328, 2154, 2154, 5055, 8551], &[7204, 7050, 6699]],
    // Closed.
    &[&[6200, 4032, 1666, 1666, 5066, 8864], &[6200, 6250, 6199]],
    // Open and round, the bar ends at the stem.
    &[&[2803, 2024, 2144, 3653, 5649, 7439], &[7902, 7436, 6968, 6699]],
];

const FIVE: &[Style] = &[
    // The top bar comes last.
    &[&[3204, 3022, 2743, 2743, 5036, 7346, 8068, 6892, 4499, 2090], &[3204, 5404, 8001]],
    // One line with two corners.
    &[&[7803, 5603, 3504, 3504, 3122, 2742, 2742, 4840, 7050, 7770, 6691, 4499, 2095]],
    // Nearly an S.
    &[&[8004, 5803, 4008, 3326, 4240, 6250, 7468, 6690, 4499, 1890]],
];

const SIX: &[Style] = &[
    // A bowed stem and a wide loop.
    &[&[6702, 4419, 2747, 2477, 3997, 6296, 7677, 6557, 4358, 2774]],
    // A straight stem and a tight loop.
    &[&[5000, 3829, 2960, 3088, 4799, 6590, 6671, 5163, 3474]],
    // A hook at the top, the loop closed on the stem.
    &[&[7613, 6202, 4213, 2739, 2370, 3695, 5998, 7580, 6958, 4851, 2662]],
];

const SEVEN: &[Style] = &[
    // Plain.
    &[&[1806, 5005, 8004, 8004, 6245, 4299]],
    // A bar across the stem.
    &[&[1807, 4804, 8004, 8004, 6242, 4599], &[3652, 5650, 7849]],
    // A serif and a bowed stem.
    &[&[2022, 2106, 2106, 5008, 8004, 8004, 6433, 5265, 4899]],
    // Round at the top.
    &[&[1814, 3405, 5805, 7410, 7330, 6062, 5099]],
];

const EIGHT: &[Style] = &[
    // An S and back.
    &[&[7012, 5101, 3111, 3231, 5246, 7265, 7090, 4999, 2890, 2768, 4848, 6830, 7010]],
    // Two rings.
    &[&[5246, 3436, 3313, 5101, 6812, 6834, 5046], &[5046, 2858, 2482, 4499, 7092, 7668, 6250, 5046]],
    // Narrow, begun at the crossing, not quite closed.
    &[&[5050, 3428, 4006, 6003, 6620, 5444, 3866, 3488, 4899, 6490, 6470, 5252]],
];

const NINE: &[Style] = &[
    // A loop and a straight stem.
    &[&[7418, 5602, 3309, 2632, 4148, 6242, 7418, 7418, 7355, 6899]],
    // A hooked tail.
    &[&[7216, 5402, 3210, 2632, 4247, 6438, 7416, 7644, 7080, 5099, 2692]],
    // A small loop and a leaning tail.
    &[&[6610, 4803, 3216, 3136, 4644, 6430, 7008, 7008, 6440, 5472, 4299]],
    // Begun at the stem's top, the loop left open.
    &[&[6208, 4208, 2826, 3444, 5445, 7030, 7610, 7610, 7245, 6474, 5899]],
];
