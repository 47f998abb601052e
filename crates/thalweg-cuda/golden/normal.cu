// options:

// Each point by itself: 1 times 1 neighbours a thread.
extern "C" __global__ void __launch_bounds__(256) map(THALWEG_PARAMETER(10)) {
  begin();
  float *const p1 = (float *)a.w[5];
  const i32 n = (i32)a.w[0];
  const i32 first = (i32)blockIdx.x * 256 + (i32)threadIdx.x;
  __align__(16) i64 m0[1][1];
  #pragma unroll
  for (i32 u = 0; u < 1; u++) {
    const i32 j = first + u * 256;
    if (j < n) {
      const i32 i0 = j;
      for (i32 v = 0; v < 1; v++) {
        m0[u][v] = (i64)a.w[3] + (i64)(i0 * 1) + (i64)v * 1;
      }
    }
  }
  #pragma unroll
  for (i32 u = 0; u < 1; u++) {
    const i32 j = first + u * 256;
    if (j < n) {
      const i32 i0 = j;
      __align__(16) float y1[1];
      #pragma unroll
      for (i32 v = 0; v < 1; v++) {
        const u32 n0 = (u32)m0[u][v];
        const u32 n1 = 0u;
        const u32 n2 = (u32)a.w[7];
        const u32 n3 = (u32)a.w[8];
        const u32 n4 = 466688986u;
        const u32 n5 = (u32)(n2 ^ n3);
        const u32 n6 = (u32)(n4 ^ n5);
        const u32 n7 = int_add<u32>(n0, n2);
        const u32 n8 = int_add<u32>(n1, n3);
        const u32 n9 = int_add<u32>(n7, n8);
        const u32 n10 = 13u;
        const u32 n11 = 19u;
        const u32 n12 = int_shl<u32>(n8, n10);
        const u32 n13 = int_shr<u32>(n8, n11);
        const u32 n14 = (u32)(n12 | n13);
        const u32 n15 = (u32)(n9 ^ n14);
        const u32 n16 = int_add<u32>(n9, n15);
        const u32 n17 = 15u;
        const u32 n18 = 17u;
        const u32 n19 = int_shl<u32>(n15, n17);
        const u32 n20 = int_shr<u32>(n15, n18);
        const u32 n21 = (u32)(n19 | n20);
        const u32 n22 = (u32)(n16 ^ n21);
        const u32 n23 = int_add<u32>(n16, n22);
        const u32 n24 = 26u;
        const u32 n25 = 6u;
        const u32 n26 = int_shl<u32>(n22, n24);
        const u32 n27 = int_shr<u32>(n22, n25);
        const u32 n28 = (u32)(n26 | n27);
        const u32 n29 = (u32)(n23 ^ n28);
        const u32 n30 = int_add<u32>(n23, n29);
        const u32 n31 = int_shl<u32>(n29, n25);
        const u32 n32 = int_shr<u32>(n29, n24);
        const u32 n33 = (u32)(n31 | n32);
        const u32 n34 = (u32)(n30 ^ n33);
        const u32 n35 = int_add<u32>(n3, n30);
        const u32 n36 = int_add<u32>(n6, n34);
        const u32 n37 = 1u;
        const u32 n38 = int_add<u32>(n36, n37);
        const u32 n39 = int_add<u32>(n35, n38);
        const u32 n40 = int_shl<u32>(n38, n18);
        const u32 n41 = int_shr<u32>(n38, n17);
        const u32 n42 = (u32)(n40 | n41);
        const u32 n43 = (u32)(n39 ^ n42);
        const u32 n44 = int_add<u32>(n39, n43);
        const u32 n45 = 29u;
        const u32 n46 = 3u;
        const u32 n47 = int_shl<u32>(n43, n45);
        const u32 n48 = int_shr<u32>(n43, n46);
        const u32 n49 = (u32)(n47 | n48);
        const u32 n50 = (u32)(n44 ^ n49);
        const u32 n51 = int_add<u32>(n44, n50);
        const u32 n52 = 16u;
        const u32 n53 = int_shl<u32>(n50, n52);
        const u32 n54 = int_shr<u32>(n50, n52);
        const u32 n55 = (u32)(n53 | n54);
        const u32 n56 = (u32)(n51 ^ n55);
        const u32 n57 = int_add<u32>(n51, n56);
        const u32 n58 = 24u;
        const u32 n59 = 8u;
        const u32 n60 = int_shl<u32>(n56, n58);
        const u32 n61 = int_shr<u32>(n56, n59);
        const u32 n62 = (u32)(n60 | n61);
        const u32 n63 = (u32)(n57 ^ n62);
        const u32 n64 = int_add<u32>(n6, n57);
        const u32 n65 = int_add<u32>(n2, n63);
        const u32 n66 = 2u;
        const u32 n67 = int_add<u32>(n65, n66);
        const u32 n68 = int_add<u32>(n64, n67);
        const u32 n69 = int_shl<u32>(n67, n10);
        const u32 n70 = int_shr<u32>(n67, n11);
        const u32 n71 = (u32)(n69 | n70);
        const u32 n72 = (u32)(n68 ^ n71);
        const u32 n73 = int_add<u32>(n68, n72);
        const u32 n74 = int_shl<u32>(n72, n17);
        const u32 n75 = int_shr<u32>(n72, n18);
        const u32 n76 = (u32)(n74 | n75);
        const u32 n77 = (u32)(n73 ^ n76);
        const u32 n78 = int_add<u32>(n73, n77);
        const u32 n79 = int_shl<u32>(n77, n24);
        const u32 n80 = int_shr<u32>(n77, n25);
        const u32 n81 = (u32)(n79 | n80);
        const u32 n82 = (u32)(n78 ^ n81);
        const u32 n83 = int_add<u32>(n78, n82);
        const u32 n84 = int_shl<u32>(n82, n25);
        const u32 n85 = int_shr<u32>(n82, n24);
        const u32 n86 = (u32)(n84 | n85);
        const u32 n87 = (u32)(n83 ^ n86);
        const u32 n88 = int_add<u32>(n2, n83);
        const u32 n89 = int_add<u32>(n3, n87);
        const u32 n90 = int_add<u32>(n46, n89);
        const u32 n91 = int_add<u32>(n88, n90);
        const u32 n92 = int_shl<u32>(n90, n18);
        const u32 n93 = int_shr<u32>(n90, n17);
        const u32 n94 = (u32)(n92 | n93);
        const u32 n95 = (u32)(n91 ^ n94);
        const u32 n96 = int_add<u32>(n91, n95);
        const u32 n97 = int_shl<u32>(n95, n45);
        const u32 n98 = int_shr<u32>(n95, n46);
        const u32 n99 = (u32)(n97 | n98);
        const u32 n100 = (u32)(n96 ^ n99);
        const u32 n101 = int_add<u32>(n96, n100);
        const u32 n102 = int_shl<u32>(n100, n52);
        const u32 n103 = int_shr<u32>(n100, n52);
        const u32 n104 = (u32)(n102 | n103);
        const u32 n105 = (u32)(n101 ^ n104);
        const u32 n106 = int_add<u32>(n101, n105);
        const u32 n107 = int_shl<u32>(n105, n58);
        const u32 n108 = int_shr<u32>(n105, n59);
        const u32 n109 = (u32)(n107 | n108);
        const u32 n110 = (u32)(n106 ^ n109);
        const u32 n111 = int_add<u32>(n3, n106);
        const u32 n112 = int_add<u32>(n6, n110);
        const u32 n113 = 4u;
        const u32 n114 = int_add<u32>(n112, n113);
        const u32 n115 = int_add<u32>(n111, n114);
        const u32 n116 = int_shl<u32>(n114, n10);
        const u32 n117 = int_shr<u32>(n114, n11);
        const u32 n118 = (u32)(n116 | n117);
        const u32 n119 = (u32)(n115 ^ n118);
        const u32 n120 = int_add<u32>(n115, n119);
        const u32 n121 = int_shl<u32>(n119, n17);
        const u32 n122 = int_shr<u32>(n119, n18);
        const u32 n123 = (u32)(n121 | n122);
        const u32 n124 = (u32)(n120 ^ n123);
        const u32 n125 = int_add<u32>(n120, n124);
        const u32 n126 = int_shl<u32>(n124, n24);
        const u32 n127 = int_shr<u32>(n124, n25);
        const u32 n128 = (u32)(n126 | n127);
        const u32 n129 = (u32)(n125 ^ n128);
        const u32 n130 = int_add<u32>(n125, n129);
        const u32 n131 = int_shl<u32>(n129, n25);
        const u32 n132 = int_shr<u32>(n129, n24);
        const u32 n133 = (u32)(n131 | n132);
        const u32 n134 = (u32)(n130 ^ n133);
        const u32 n135 = int_add<u32>(n6, n130);
        const u32 n136 = int_add<u32>(n2, n134);
        const u32 n137 = 5u;
        const u32 n138 = int_add<u32>(n136, n137);
        const u32 n139 = int_shr<u32>(n135, n59);
        const float n140 = (float)n139;
        const float n141 = 5.9604645e-8f;
        const float n142 = n140 * n141;
        const u32 n143 = int_shr<u32>(n138, n59);
        const float n144 = (float)n143;
        const float n145 = n141 * n144;
        const float n146 = 1.0f;
        const float n147 = -2.0f;
        const float n148 = 6.2831855f;
        const float n149 = n146 - n142;
        const float n150 = logf(n149);
        const float n151 = n147 * n150;
        const float n152 = sqrtf(n151);
        const float n153 = n145 * n148;
        const float n154 = cosine(n153);
        const float n155 = n152 * n154;
        y1[v] = n155;
      }
      store1(p1 + i0 * 1, y1[0]);
    }
  }
}
